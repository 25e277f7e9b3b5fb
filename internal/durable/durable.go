// Package durable makes files survive a loss of power. It syncs the data of a file and the names of a
// directory. It replaces small files so that a crash, of the process or of the machine, leaves the old or
// the new content.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile makes content that of the file at path, which only its owner may read. When it returns nil the
// content survives a loss of power. After an error the file has its old content or the new one. Two calls for
// one path must not overlap.
func WriteFile(path string, content []byte) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Remove deletes the file at path, which must exist. When it returns nil the file does not come back after a
// loss of power.
func Remove(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Exists reports whether there is a file of this name; a symbolic link counts as a file.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// SyncDir makes the names in a directory survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
