package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
)

// directory is a Storage in a directory.
type directory string

// OpenDirectory opens the repository in a directory, which is made if create is set.
func OpenDirectory(dir string, create bool) (*Repository, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("repository %s: not a directory: give a directory, or s3://BUCKET/PREFIX", dir)
	}
	if create {
		if err := os.MkdirAll(filepath.Join(dir, "backups"), 0o700); err != nil {
			return nil, fmt.Errorf("repository: %w", err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "backups")); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a repository of backups: 'globalfs backup create' makes one", dir)
	}
	return &Repository{storage: directory(dir), where: dir}, nil
}

// Open opens the repository in a storage. Where names it in errors. With create it may be empty; otherwise it
// has a backup.
func Open(ctx context.Context, storage Storage, where string, create bool) (*Repository, error) {
	r := &Repository{storage: storage, where: where}
	names, err := storage.List(ctx, "backups")
	if err == nil && len(names) == 0 && !create {
		err = fmt.Errorf("%s has no backups: 'globalfs backup create' makes one", where)
	}
	return r, err
}

func (d directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Put implements Storage.
func (d directory) Put(ctx context.Context, name string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.path(name)), 0o700); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	if err := durable.WriteFile(d.path(name), data); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	return nil
}

// Get implements Storage.
func (d directory) Get(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	return b, nil
}

// Has implements Storage.
func (d directory) Has(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List implements Storage.
func (d directory) List(ctx context.Context, dir string) (names []string, err error) {
	entries, err := os.ReadDir(d.path(dir))
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".new") {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, ctx.Err()
}
