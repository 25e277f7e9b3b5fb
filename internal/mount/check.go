package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// checkDir gives the absolute path of a directory to mount on, or says why it is none and what to do.
func checkDir(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("mount %s: a mount whose program has died is still there: remove it with 'umount -l %s' (or 'fusermount3 -uz %s')", dir, dir, dir)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("mount %s: no such directory: make it with 'mkdir -p %s'", dir, dir)
	case err != nil:
		return "", fmt.Errorf("mount %s: %w", dir, err)
	case !info.IsDir():
		return "", fmt.Errorf("mount %s: not a directory", dir)
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("mount %s: %w", dir, err)
	}
	if there, ok := mountedAt(path); ok {
		return "", fmt.Errorf("mount %s: busy: a file system (%s) is mounted there: unmount it (if its program has died: 'umount -l %s') or choose another directory", dir, there.kind, dir)
	}
	return path, nil
}

// checkDevice says what is missing to mount at all.
func checkDevice(dir string) error {
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

// advice names what is commonly missing when mounting fails.
func advice() string {
	if os.Geteuid() == 0 {
		return ": in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN"
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return ": fusermount3 is not installed: 'apt-get install fuse3'"
	}
	return ""
}
