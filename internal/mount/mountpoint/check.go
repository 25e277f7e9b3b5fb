package mountpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// CheckDir returns the absolute path, without links, of the directory dir to mount on. Its errors name the
// remedy.
func CheckDir(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("mount %s: the process of an earlier mount has ended: 'globalfs umount --force %s' removes that mount", dir, dir)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("mount %s: no such directory: make it with 'mkdir -p %s'", dir, dir)
	case err != nil:
		return "", fmt.Errorf("mount %s: %w", dir, err)
	case !info.IsDir():
		return "", fmt.Errorf("mount %s: not a directory: give a directory as the mount point", dir)
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("mount %s: %w", dir, err)
	}
	if there, ok := At(path); ok {
		return "", fmt.Errorf("mount %s: busy: a file system (%s) is mounted there: unmount it, or choose another directory", dir, there.Kind)
	}
	return path, nil
}

// CheckDevice fails if this process cannot use /dev/fuse. The error names dir and the remedy.
func CheckDevice(dir string) error {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case err == nil:
		return device.Close()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return fmt.Errorf("mount %s: no /dev/fuse: load the module with 'modprobe fuse', or start the container with --device /dev/fuse --cap-add SYS_ADMIN", dir)
	case os.Geteuid() == 0:
		return fmt.Errorf("mount %s: %w: start the container with --device /dev/fuse --cap-add SYS_ADMIN", dir, err)
	}
	return fmt.Errorf("mount %s: %w: fusermount3 opens it as you: run 'chmod 666 /dev/fuse' as root", dir, err)
}

// Advice names the usual cause of a failed mount(2); it continues an error's text. It may be empty.
func Advice() string {
	if os.Geteuid() == 0 {
		return ": in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN"
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return ": fusermount3 is not installed: 'apt-get install fuse3'"
	}
	return ""
}
