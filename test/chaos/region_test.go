package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRegionDies: all servers of a region are killed at once. The other regions, and the global partition,
// continue. Changes in the region's own partition fail in time. After the restart all data is as before.
func TestRegionDies(t *testing.T) {
	w := newWorld(t)
	dead, here, there := string(regions[1]), string(regions[0]), string(regions[2])
	mount := w.mounts[0].Dir
	in := func(parts ...string) string { return filepath.Join(append([]string{mount}, parts...)...) }
	big := make([]byte, 300_000)
	for i := range big {
		big[i] = byte(i * i)
	}
	for _, dir := range []string{"", here, there, dead} {
		require.NoError(t, os.WriteFile(in(dir, "before"), big, 0o644))
	}
	var names []string
	for d := range 3 {
		names = append(names, fmt.Sprintf("%s%c", dead, 'a'+d))
	}
	for _, name := range names {
		w.cluster.Servers[name].Signal(syscall.SIGKILL)
	}
	for _, name := range names {
		w.cluster.Servers[name].Kill()
	}
	began := time.Now()
	for n := range 10 {
		for _, dir := range []string{"", here, there} {
			require.NoError(t, os.WriteFile(in(dir, fmt.Sprint("during", n)), big, 0o644), dir)
			got, err := os.ReadFile(in(dir, "before"))
			require.NoError(t, err)
			require.Equal(t, big, got)
		}
		require.NoError(t, os.Rename(in(here, fmt.Sprint("during", n)), in(there, fmt.Sprint("moved", n))))
	}
	t.Logf("without %s: 30 files written, 10 moved between the other regions, in %v", dead, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	require.ErrorIs(t, os.WriteFile(in(dead, "during"), big, 0o644), syscall.ETIMEDOUT)
	require.Less(t, time.Since(began), 25*time.Second, "the mount's timeout is 10 s, and a system call may be two operations")
	for _, name := range names {
		require.NoError(t, w.cluster.Servers[name].Launch())
	}
	for _, name := range names {
		require.NoError(t, w.cluster.Servers[name].AwaitReady(t.Context()))
	}
	took, err := w.recovered(time.Minute)
	require.NoError(t, err)
	t.Logf("all well %v after its return", took.Round(time.Millisecond))
	require.Less(t, took, *within)
	for _, m := range w.mounts {
		got, err := os.ReadFile(filepath.Join(m.Dir, dead, "before"))
		require.NoError(t, err)
		require.Equal(t, big, got)
		got, err = os.ReadFile(filepath.Join(m.Dir, "during9"))
		require.NoError(t, err)
		require.Equal(t, big, got)
	}
	out, err := w.cluster.Run(t.Context(), "fsck", "--blocks", mount)
	require.NoError(t, err, out)
}
