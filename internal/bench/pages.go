package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dropPages asks the kernel to drop the cached pages of f.
func dropPages(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("fadvise %s: %w", f.Name(), err)
	}
	return nil
}

// forget writes all files below dir to the disk and drops them from the kernel's memory. The next writes then
// use pages that were used before.
func forget(dir string) error { return errors.Join(settle(dir), dropAllPages(dir)) }

// settle writes all pending data of dir's file system to the disk, so that this work does not count for the
// next measurement.
func settle(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err = unix.Syncfs(int(d.Fd())); err != nil {
		err = fmt.Errorf("syncfs %s: %w", dir, err)
	}
	return errors.Join(err, d.Close())
}

// dropAllPages asks the kernel to drop the cached pages of the files below dir. It ignores files that are
// removed meanwhile.
func dropAllPages(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(dropPages(f), f.Close())
	})
}
