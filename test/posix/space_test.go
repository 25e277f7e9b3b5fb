package posix

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/test/program"
)

// A nearly full disk causes ENOSPC and no other damage. Removed files free their space.
func TestFullDisk(t *testing.T) {
	requireMount(t)
	base := shortDir(t)
	if err := syscall.Mount("tmpfs", base, "tmpfs", 0, "size=640m,mode=755"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(base, 0)) })
	c := startClusterIn(t, base, "--gc-grace", "1s")

	kept, big := pattern(3<<20), pattern(1<<20)
	require.NoError(t, os.WriteFile(c.in(near, near, "kept"), kept, 0o644))
	f, err := os.Create(c.in(near, near, "big"))
	require.NoError(t, err)
	written := 0
	for ; written < 1000; written++ {
		if _, err = f.Write(big); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	require.Greater(t, written, 100)
	var fs syscall.Statfs_t
	require.NoError(t, syscall.Statfs(base, &fs))
	require.Greater(t, fs.Bavail*uint64(fs.Bsize), uint64(32<<20), "the disk itself is not full")

	require.NoError(t, os.WriteFile(c.in(near, near, "small"), []byte("small files are metadata"), 0o644))
	require.NoError(t, os.Mkdir(c.in(near, near, "directory"), 0o755))
	got, err := os.ReadFile(c.in(far, near, "kept"))
	require.NoError(t, err)
	require.Equal(t, kept, got)

	require.NoError(t, os.Remove(c.in(near, near, "big")))
	path := program.Path(t)
	require.Eventually(t, func() bool { // the file was open: its session releases it within about ten seconds
		out, err := command(t, base, path, "gc", "--grace", "0s", "-o", "json", c.in(near))
		if err != nil {
			t.Logf("gc: %v: %s", err, out)
			return false
		}
		var report struct {
			Partitions []struct{ Live struct{ Blocks uint64 } }
		}
		require.NoError(t, json.Unmarshal([]byte(out), &report))
		return report.Partitions[1].Live.Blocks == 3
	}, 60*time.Second, time.Second)
	require.Eventually(t, func() bool { // compaction follows
		err := os.WriteFile(c.in(near, near, "again"), pattern(100<<20), 0o644)
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			require.NoError(t, err)
		}
		return err == nil
	}, 60*time.Second, time.Second)
	got, err = os.ReadFile(c.in(near, near, "kept"))
	require.NoError(t, err)
	require.Equal(t, kept, got)
}
