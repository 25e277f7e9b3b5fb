package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// nextIncarnation counts the starts of a server in a file. It is durable before
// anything is said under its number: peers tell a restarted process by it, and message
// ids of different starts differ by it.
func nextIncarnation(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var last uint64
	if err == nil {
		if last, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31); err != nil {
			return 0, fmt.Errorf("%s does not hold a number: %w; restore it with one higher than it ever held", path, err)
		}
	}
	return last + 1, WriteDurably(path, fmt.Appendf(nil, "%d\n", last+1))
}

// WriteDurably replaces a file so that a crash leaves the old or the new content.
func WriteDurably(path string, content []byte) (err error) {
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
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
