//go:build slowdisk

package wal

import "golang.org/x/sys/unix"

// With the build tag slowdisk each sync of a log takes half a millisecond longer, as on a disk in a
// datacenter: for measurements with logs in memory.
func init() {
	delaySync = func() { _ = unix.Nanosleep(&unix.Timespec{Nsec: 500_000}, nil) }
}
