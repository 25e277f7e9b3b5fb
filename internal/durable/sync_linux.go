package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// delaySync delays syncs in programs with the build tag slowdisk.
var delaySync = func() {}

// SyncData makes the bytes and the length of a file durable, but not its times.
func SyncData(file *os.File) error {
	delaySync()
	for {
		if err := unix.Fdatasync(int(file.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
