package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// checkMountPoint refuses an unusable mount point before any call of the servers. With create it makes the
// directory.
func checkMountPoint(dir string, create bool) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if !create {
			return command.InputError(fmt.Errorf("mount point %s does not exist: make it with mkdir, or give --mkdir", dir))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return command.InputError(fmt.Errorf("mount point: %w", err))
		}
	}
	if _, err := mountpoint.CheckDir(dir); err != nil {
		return command.InputError(err)
	}
	return nil
}

// checkMounted refuses an option that needs a mount of GlobalFS at dir.
func checkMounted(option, dir string) error {
	there, ok := mountpoint.At(dir)
	if !ok || there.Kind != mountpoint.FSType {
		return command.InputError(fmt.Errorf("%s: %s is not mounted by GlobalFS: mount it without %[1]s; 'findmnt -t fuse.globalfs' lists the mounts of this machine", option, dir))
	}
	return nil
}
