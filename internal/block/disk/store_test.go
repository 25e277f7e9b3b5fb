package disk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
)

// open opens a store that the test closes.
func open(t testing.TB, config disk.Config) *disk.Store {
	s, err := disk.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			require.ErrorIs(t, err, block.ErrClosed)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store { return open(t, disk.DefaultConfig(t.TempDir())) })
}

func TestStoreNoSync(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		config := disk.DefaultConfig(t.TempDir())
		config.NoSync = true
		config.SegmentBytes = block.MaxSize // many segments
		config.OpenFiles = 1
		return open(t, config)
	})
}

func TestConfig(t *testing.T) {
	good := disk.DefaultConfig(t.TempDir())
	for name, change := range map[string]func(*disk.Config){
		"no directory":    func(c *disk.Config) { c.Dir = "" },
		"small segments":  func(c *disk.Config) { c.SegmentBytes = 1000 },
		"no descriptors":  func(c *disk.Config) { c.OpenFiles = 0 },
		"not a directory": func(c *disk.Config) { c.Dir = "/dev/null" },
	} {
		bad := good
		change(&bad)
		_, err := disk.Open(bad)
		require.Error(t, err, name)
	}
	s := open(t, good)
	_, err := disk.Open(good)
	require.Error(t, err, "two processes with one directory")
	require.NoError(t, s.Close())

	id, data := blocktest.Block(1, 5000)
	require.ErrorIs(t, s.Put(t.Context(), block.New(id, data)), block.ErrClosed)
	_, err = s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrClosed)
	_, err = blocktest.Collect(s.Range(t.Context(), id, id))
	require.ErrorIs(t, err, block.ErrClosed)
	require.ErrorIs(t, s.Close(), block.ErrClosed)
}

func TestSizes(t *testing.T) {
	for name, disk := range map[string]region.Disk{"memory": blocktest.NewMemory(blocktest.Big), "segments": open(t, disk.DefaultConfig(t.TempDir()))} {
		var ids []block.ID
		for i, size := range []int{10, 4097} {
			id, data := blocktest.Block(i, size)
			require.NoError(t, disk.Put(t.Context(), block.New(id, data)), name)
			ids = append(ids, id)
		}
		missing, _ := blocktest.Block(2, 1)
		sizes, err := disk.Sizes(t.Context(), append(ids, missing))
		require.NoError(t, err, name)
		require.Equal(t, []uint32{10, 4097, 0}, sizes, name)
	}
}
