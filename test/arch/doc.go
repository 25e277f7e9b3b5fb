// Package arch has only tests, which enforce the architecture. Every package is on a floor and imports only
// from lower floors. The cores have no clock, goroutine or socket. Each external library has one importer. A
// reviewed file lists the packages of the binary. All exported names are documented.
//
// Its input is the source of other packages, which the test cache does not track: run it with -count=1, as
// make arch does.
package arch
