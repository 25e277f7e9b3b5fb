// Package arch has only tests: they hold the architecture in place. Every package stands on a
// floor and imports only from lower ones; the cores have no clock, goroutine or socket; each
// outside library has its one importer; what the binary is made of is a file under review;
// everything exported is documented.
//
// Its input is other packages' sources, of which the test cache knows nothing: run it with -count=1
// (make arch does).
package arch
