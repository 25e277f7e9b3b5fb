package durable

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"old and long", "new", ""} {
		require.NoError(t, WriteFile(path, []byte(content)))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

// A failed write leaves the old content. A file that was left by a crash does not keep the next call from
// writing.
func TestWriteFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, WriteFile(path, []byte("old")))
	require.NoError(t, os.Mkdir(path+".new", 0o700))
	require.Error(t, WriteFile(path, []byte("new")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(got))
	require.NoError(t, os.Remove(path+".new"))
	require.NoError(t, os.WriteFile(path+".new", []byte("left by a process that crashed"), 0o600))
	require.NoError(t, WriteFile(path, []byte("new")))
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
}

func TestExists(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	for name, want := range map[string]bool{"": true, "link": true, "absent": false, "absent/file": false} {
		got, err := Exists(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err := Exists(filepath.Join(dir, "file", "below"))
	require.ErrorIs(t, err, syscall.ENOTDIR)
}
