package mountpoint

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// WritePages has the kernel give the pages of shared mappings to the mount at path. The mount may not have
// them on disk then: Linux does not pass syncfs on to FUSE file systems other than virtiofs and fuseblk.
func WritePages(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
