package mount

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A mount of a directory has it as root for all operations of programs; the rest of the tree cannot be
// reached.
func TestSubdir(t *testing.T) {
	whole := mountHere(t)
	require.NoError(t, os.MkdirAll(whole.path("us-east-1/a/b"), 0o755))
	whole.write(t, "us-east-1/a/outside", "outside")
	dir := t.TempDir()
	m, err := New(Config{Client: whole.Client(t, "us-west-2"), Dir: dir, Subdir: "/us-east-1/a/b/"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	part := &mounted{whole.Network, nil, m, dir}

	part.write(t, "file", "content")
	whole.awaitContent(t, "us-east-1/a/b/file", "content")
	require.Equal(t, whole.stat(t, "us-east-1/a/b").Ino, part.stat(t, "").Ino)
	require.NoError(t, os.Mkdir(part.path("d"), 0o755))
	require.NoError(t, os.Rename(part.path("file"), part.path("d/file")))
	require.NoError(t, os.Rename(part.path("d/file"), part.path("back")))
	require.NoError(t, os.Link(part.path("back"), part.path("second")))
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, part.path("second"), unix.AT_FDCWD, part.path("d"), unix.RENAME_EXCHANGE))
	require.NoError(t, unix.Setxattr(part.path(""), "user.a", []byte("b"), 0))
	require.NoError(t, os.Chmod(part.path(""), 0o711))
	require.NoError(t, os.Symlink("../outside", part.path("link")))
	_, err = os.Stat(part.path("link"))
	require.ErrorIs(t, err, os.ErrNotExist)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(whole.path("us-east-1/a/b"))
		return err == nil && len(entries) == 4
	}, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		info, err := os.Stat(whole.path("us-east-1/a/b"))
		return err == nil && info.Mode().Perm() == 0o711
	}, 30*time.Second, time.Millisecond)
	part.runPosix(t)
	require.NoError(t, os.Rename(whole.path("us-east-1/a/b"), whole.path("elsewhere")))
	part.write(t, "moved", "along")
	whole.awaitContent(t, "elsewhere/moved", "along")
	require.NoError(t, os.RemoveAll(whole.path("elsewhere")))
	err = os.WriteFile(part.path("new"), nil, 0o644)
	require.True(t, errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESTALE), "%v", err)
}

func TestNoSubdir(t *testing.T) {
	m := mountHere(t)
	m.write(t, "file", "")
	require.NoError(t, os.Symlink("us-east-1", m.path("link")))
	for _, path := range []string{"/none", "/file", "/file/below", "/link", filepath.Join("us-east-1", "none")} {
		_, err := New(Config{Client: m.client, Dir: t.TempDir(), Subdir: path})
		require.ErrorIs(t, err, errNoDirectory, path)
		require.ErrorContains(t, err, strings.Trim(path, "/"))
	}
}
