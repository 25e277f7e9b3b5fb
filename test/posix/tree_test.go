package posix

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// plant makes a tree with an entry of each kind.
func plant(t *testing.T, dir string) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deep", "er", "est"), 0o750))
	for name, size := range map[string]int{
		"empty": 0, "inline": 100, "page": 4096, "page and one": 4097, "block": 1 << 20, "deep/er/blocks": 3<<20 + 5,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pattern(size), 0o640))
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	_, err = sparse.WriteAt([]byte("far out"), 5<<20)
	require.NoError(t, err)
	require.NoError(t, sparse.Close())
	for i := range 300 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "deep", "er", "est", fmt.Sprint(i)), []byte("x"), 0o600))
	}
	require.NoError(t, os.Symlink("../nowhere", filepath.Join(dir, "symlink")))
	require.NoError(t, os.Link(filepath.Join(dir, "inline"), filepath.Join(dir, "deep", "second name")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o622))
	require.NoError(t, os.Chown(filepath.Join(dir, "page"), 1234, 5678))
	require.NoError(t, os.Chmod(filepath.Join(dir, "page"), 0o755|os.ModeSetuid))
	require.NoError(t, unix.Setxattr(filepath.Join(dir, "block"), "user.colour", []byte("blue"), 0))
	past := time.Date(2001, 9, 9, 1, 46, 40, 123456789, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "empty"), past, past))
}

// pattern returns bytes that differ from block to block.
func pattern(size int) []byte {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return text
}

// census describes all entries below dir, with a line for each.
func census(t *testing.T, dir string) map[string]string {
	lines := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		line := fmt.Sprintf("ino=%d mode=%o nlink=%d owner=%d:%d size=%d mtime=%d.%09d",
			st.Ino, st.Mode, st.Nlink, st.Uid, st.Gid, st.Size, st.Mtim.Sec, st.Mtim.Nsec)
		switch {
		case entry.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" sha256=%x xattr=%q", sha256.Sum256(text), xattr(path))
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " target=" + target
		}
		rel, err := filepath.Rel(dir, path)
		lines[rel] = line
		return err
	}))
	return lines
}

func xattr(path string) []byte {
	value := make([]byte, 64)
	n, err := unix.Getxattr(path, "user.colour", value)
	if err != nil {
		return nil
	}
	return bytes.Clone(value[:n])
}
