package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// checkMountPoint refuses an unusable mount point before any call of the servers. With create it makes the
// directory.
func checkMountPoint(dir string, create bool) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return command.InputError(fmt.Errorf("%s is not a directory: give a directory as the mount point", dir))
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTCONN):
		return command.InputError(fmt.Errorf("%s: the process of an earlier mount has ended: 'globalfs umount --force %s' removes that mount", dir, dir))
	case !errors.Is(err, fs.ErrNotExist):
		return command.InputError(fmt.Errorf("mount point: %w", err))
	case !create:
		return command.InputError(fmt.Errorf("mount point %s does not exist: make it with mkdir, or give --mkdir", dir))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return command.InputError(fmt.Errorf("mount point: %w", err))
	}
	return nil
}

// checkMounted refuses to take over a directory without a mount of GlobalFS.
func checkMounted(dir string) error {
	there, ok := mountpoint.At(dir)
	if !ok || there.Kind != mountpoint.FSType {
		return command.InputError(fmt.Errorf("--take-over: %s is not mounted by GlobalFS: mount it without --take-over; 'findmnt -t fuse.globalfs' lists the mounts of this machine", dir))
	}
	return nil
}
