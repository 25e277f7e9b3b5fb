package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// osFile is a file of the operating system.
type osFile struct{ *os.File }

// delaySync delays syncs in programs with the build tag slowdisk.
var delaySync = func() {}

// SyncData makes the bytes and the length of the file durable, but not its times.
func (f osFile) SyncData() error {
	delaySync()
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
