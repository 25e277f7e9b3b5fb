package disk_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/disk"
)

// TestCompactionKilled kills a compaction before each of its steps. It also combines an older index with
// newer segments, and segments with a torn tail, as a loss of power can do (S7).
func TestCompactionKilled(t *testing.T) {
	for _, sync := range []bool{false, true} {
		config := small(t.TempDir())
		config.NoSync = !sync
		config.SegmentBytes = 3 << 20
		config.CompactShare = 0.3
		s := open(t, config)
		fill(t, s, 22)
		gone := []int{0, 2, 5, 8, 11}
		remove(t, s, gone...)
		var steps []string
		require.NoError(t, s.Compact(stepping{t.Context(), func() { steps = append(steps, snapshot(t, config.Dir)) }}))
		steps = append(steps, snapshot(t, config.Dir))
		require.NoError(t, s.Close())
		require.Greater(t, len(steps), 4, "seal, moves, retire")
		require.Positive(t, stats(t, open(t, withDir(config, steps[0]))).DeadBytes)

		for newer := range steps {
			for older := range newer + 1 {
				dir := mix(t, steps[older], steps[newer])
				requireAfterCrash(t, withDir(config, dir), 22, gone)
			}
			if newer == len(steps)-1 {
				break // moved records are durable by then
			}
			for range 4 {
				dir := mix(t, steps[0], steps[newer])
				tear(t, dir, steps[0])
				requireAfterCrash(t, withDir(config, dir), 22, gone)
			}
		}
	}
}

// mix makes a store with the index of one and the segments of another.
func mix(t testing.TB, index, segments string) string {
	dir := snapshot(t, segments)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "index"), os.DirFS(filepath.Join(index, "index"))))
	return dir
}

// tear cuts the last segment of dir somewhere behind its end in before.
func tear(t testing.TB, dir, before string) {
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	require.NoError(t, err)
	last := names[len(names)-1]
	info, err := os.Stat(last)
	require.NoError(t, err)
	low := int64(0)
	if old, err := os.Stat(filepath.Join(before, filepath.Base(last))); err == nil {
		low = old.Size()
	}
	require.NoError(t, os.Truncate(last, low+rand.Int64N(info.Size()-low+1)))
}

// requireAfterCrash fails unless a store has the first blocks except those in gone, has a correct count of
// its content, and can be compacted.
func requireAfterCrash(t testing.TB, config disk.Config, blocks int, gone []int) {
	t.Helper()
	s := open(t, config)
	check := func() {
		t.Helper()
		live := 0
		for i := range blocks {
			deleted := false
			for _, g := range gone {
				deleted = deleted || g == i
			}
			requireHas(t, s, i, third, !deleted)
			if !deleted {
				live++
			}
		}
		require.NoError(t, s.Audit())
		require.EqualValues(t, live, stats(t, s).Blocks)
	}
	check()
	require.NoError(t, s.Compact(t.Context()))
	check()
	require.Zero(t, stats(t, s).Rebuilds)
	require.NoError(t, s.Close())
}
