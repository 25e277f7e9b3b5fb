//go:build slowdisk

package durable

import "golang.org/x/sys/unix"

// With the build tag slowdisk each sync of a log or of blocks takes half a millisecond longer, as on a disk
// in a datacenter: for measurements with the data in memory.
func init() {
	delaySync = func() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 500_000}, nil) }
}
