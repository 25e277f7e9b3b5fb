package serve

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// socketsRoot is the directory of root's sockets.
const socketsRoot = "/run/globalfs"

// HandoverPath returns the path of the socket for handovers of the mount at dir. It makes the socket's
// directory, which only this user can enter.
func HandoverPath(dir string) (string, error) {
	place, name, err := socketOf(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(place, "mount-"+name+".sock"), nil
}

// socketOf returns the directory for sockets, which it makes, and a name for the mount at dir.
func socketOf(dir string) (place, name string, err error) {
	place = socketsRoot
	if os.Geteuid() != 0 {
		base := os.Getenv("XDG_RUNTIME_DIR")
		if base == "" {
			return "", "", errors.New("XDG_RUNTIME_DIR is not set: there is no directory for the sockets of a mount")
		}
		place = filepath.Join(base, "globalfs")
	}
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", "", err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return "", "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", "", fmt.Errorf("%s: must be a directory of this user that nobody else can enter: run 'chmod 700 %s', or remove it", place, place)
	}
	path, err := pathOf(dir)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256([]byte(path)) // a path may be longer than a socket's
	return place, fmt.Sprintf("%x", sum[:12]), nil
}

// pathOf returns the absolute path of a mount point without links. It sends no request to the mount itself,
// which may have no process that answers.
func pathOf(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, ok := mountpoint.At(path); ok {
		return path, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if path = filepath.Join(parent, filepath.Base(path)); path == parent {
		return path, nil
	}
	if _, ok := mountpoint.At(path); ok {
		return path, nil
	}
	whole, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return whole, err
}
