package lossy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// restart is a loss of power: unsynced data are gone, the rest is there.
func restart(t *testing.T, d *Disk, dir string) {
	require.NoError(t, d.Unmount())
	d.Lose()
	require.NoError(t, d.Mount(dir))
}

func syncFile(t *testing.T, path string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func TestWhatIsNotSyncedIsLost(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("only root can mount, where there is FUSE")
	}
	d, dir := New(), t.TempDir()
	require.NoError(t, d.Mount(dir))
	t.Cleanup(func() { require.NoError(t, d.Unmount()) })
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	write := func(text string, parts ...string) {
		require.NoError(t, os.WriteFile(in(parts...), []byte(text), 0o644))
	}
	read := func(parts ...string) string {
		text, err := os.ReadFile(in(parts...))
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, os.MkdirAll(in("a", "b"), 0o755))
	write("synced", "a", "b", "kept")
	write("not", "a", "lost")
	syncFile(t, in("a", "b", "kept"))
	write("synced, then more", "a", "b", "kept")
	require.Equal(t, "synced, then more", read("a", "b", "kept"))
	require.Equal(t, "not", read("a", "lost"))
	restart(t, d, dir)
	require.Equal(t, "synced", read("a", "b", "kept"), "the last fsync")
	require.NoFileExists(t, in("a", "lost"))

	write("1", "new")
	syncFile(t, in("new"))
	require.NoError(t, os.Rename(in("new"), in("renamed")))
	require.NoError(t, os.Remove(in("a", "b", "kept")))
	restart(t, d, dir)
	require.Equal(t, "1", read("new"), "the directory was not synced")
	require.Equal(t, "synced", read("a", "b", "kept"))

	require.NoError(t, os.Rename(in("new"), in("renamed")))
	require.NoError(t, os.Truncate(in("a", "b", "kept"), 2))
	syncFile(t, dir)
	restart(t, d, dir)
	require.NoFileExists(t, in("new"))
	require.Equal(t, "1", read("renamed"))
	require.Equal(t, "synced", read("a", "b", "kept"))
}
