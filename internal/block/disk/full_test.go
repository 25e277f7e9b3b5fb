package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
)

// TestCompactionOfAFullDisk: deletes and compaction make room again, in the reserve, with the store open.
func TestCompactionOfAFullDisk(t *testing.T) {
	config := disk.DefaultConfig(filepath.Join(blocktest.SmallDisk(t, "96m"), "store"))
	config.SegmentBytes = 4 << 20
	config.ReserveBytes = 16 << 20
	s := open(t, config)
	stored := 0
	fillUp := func() (from, to int) {
		from = stored
		for ; ; stored++ {
			id, data := blocktest.Block(stored, third)
			if err := s.Put(t.Context(), block.New(id, data)); err != nil {
				require.ErrorIs(t, err, block.ErrNoSpace)
				return from, stored
			}
		}
	}
	for round := range 3 {
		from, to := fillUp()
		require.Greater(t, to-from, 50, "round %d", round)
		_, free, err := s.Usage()
		require.NoError(t, err)
		require.Less(t, free, uint64(third+header))
		var gone []int
		for i := range to {
			if i%5 != 0 {
				gone = append(gone, i)
			}
		}
		remove(t, s, gone...)
		require.NoError(t, s.Compact(t.Context()), "round %d", round)
		for i := range to {
			requireHas(t, s, i, third, i%5 == 0)
		}
		require.NoError(t, s.Audit())
	}
	require.Positive(t, stats(t, s).MovedBlocks)
}

// TestSpaceComesBack fills the disk from outside, beyond the reserve: calls return ErrNoSpace, existing
// blocks can be read, and once there is space again the store continues by itself.
func TestSpaceComesBack(t *testing.T) {
	dir := blocktest.SmallDisk(t, "48m")
	config := disk.DefaultConfig(filepath.Join(dir, "store"))
	config.SegmentBytes = 4 << 20
	config.ReserveBytes = 0
	s := open(t, config)
	live := map[int]int{}
	check := func() {
		t.Helper()
		for i, size := range live {
			requireHas(t, s, i, size, true)
		}
	}
	n, refused := 0, 0
	put := func() error {
		size := []int{100, 3000, 5000, 60000}[n%4]
		id, data := blocktest.Block(n, size)
		err := s.Put(t.Context(), block.New(id, data))
		if err == nil {
			live[n] = size
		}
		n++
		return err
	}
	for round := range 3 {
		for range 40 {
			require.NoError(t, put(), "round %d", round)
		}
		hog(t, filepath.Join(dir, "hog"))
		for range 40 {
			if err := put(); err != nil {
				require.ErrorIs(t, err, block.ErrNoSpace)
				refused++
			}
		}
		check()
		for i := range live { // a delete is done, or there is no space for it
			id, _ := blocktest.Block(i, live[i])
			if err := s.Delete(t.Context(), []block.ID{id}); err != nil {
				require.ErrorIs(t, err, block.ErrNoSpace)
			}
			delete(live, i) // after an error it may be gone, too
			break
		}
		if err := s.Compact(t.Context()); err != nil {
			require.ErrorIs(t, err, block.ErrNoSpace)
		}
		check()
		require.NoError(t, os.Remove(filepath.Join(dir, "hog")))
	}
	require.NoError(t, put())
	require.NoError(t, s.Compact(t.Context()))
	require.Positive(t, refused)
	check()
	require.NoError(t, s.Audit())
	require.NoError(t, s.Close())
	s = open(t, config)
	check()
	require.NoError(t, s.Audit())
	require.Zero(t, stats(t, s).Rebuilds)
}

// hog takes all space that is left.
func hog(t *testing.T, path string) {
	f, err := os.Create(path)
	require.NoError(t, err)
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else {
			require.NoError(t, err)
		}
	}
	require.NoError(t, f.Close())
}

// TestIndexCannotGrow: LevelDB refuses all writes after a failed one. The store opens it again.
func TestIndexCannotGrow(t *testing.T) {
	blocktest.WithFileLimit(t, func(limit func(bytes uint64)) {
		config := noSync(t.TempDir())
		s := open(t, config)
		fill(t, s, 2)
		limit(150 << 10)
		const blocks, size = 2000, 200
		failed := 0
		for i := 10; i < blocks; i++ {
			id, data := blocktest.Block(i, size)
			if err := s.Put(t.Context(), block.New(id, data)); err != nil {
				require.ErrorIs(t, err, block.ErrNoSpace)
				failed++
			} else {
				requireHas(t, s, i, size, true)
			}
			if i%2 == 0 {
				if err := s.Delete(t.Context(), []block.ID{id}); err != nil {
					require.ErrorIs(t, err, block.ErrNoSpace)
					failed++
				}
			}
		}
		require.Positive(t, failed)
		require.Less(t, failed, 50, "it was opened again")
		limit(0)
		for i := 10; i < blocks; i++ {
			id, data := blocktest.Block(i, size)
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
		require.NoError(t, s.Audit())
		require.Len(t, all(t, s), blocks-10+2)
		if err := s.Close(); err != nil { // LevelDB may still have the error of a table that it rewrites
			require.ErrorIs(t, err, block.ErrNoSpace)
		}
		s = open(t, config)
		require.Len(t, all(t, s), blocks-10+2)
		requireHas(t, s, 1, third, true)
		require.NoError(t, s.Audit())
		require.Zero(t, stats(t, s).Rebuilds)
	})
}
