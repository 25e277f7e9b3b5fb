package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/mount"
)

// makeDirectory makes a missing directory and those above it, if wanted is set (--mkdir). It makes
// directories only on a mount.
func makeDirectory(ctx context.Context, path string, wanted bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s: not a directory: place the directory that contains it", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return explain(path, cause(err))
	case !wanted:
		return fmt.Errorf("%s: no such directory: --mkdir makes it", path)
	}
	above, err := existing(path)
	if err != nil {
		return err
	}
	if _, err := getControl(ctx, above, mount.XattrRegion); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o777)
}

// cause returns the system error in err, without the operation and the path.
func cause(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// existing returns the nearest existing directory above path.
func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		path = filepath.Dir(path)
		_, err := os.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
}
