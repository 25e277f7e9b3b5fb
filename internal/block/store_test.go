package block_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
)

// big is a size that no test fills, in bytes.
const big = 1 << 30

// open opens a Segments in dir that the test closes.
func open(t testing.TB, config block.Config) *block.Segments {
	s, err := block.OpenSegments(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			require.ErrorIs(t, err, block.ErrClosed)
		}
	})
	return s
}

// region makes a region of n servers in memory that keeps 3 copies.
func region(t testing.TB, n int) *blocktest.Region {
	disks := make([]block.Disk, n)
	for i := range disks {
		disks[i] = blocktest.NewMemory(big)
	}
	return blocktest.NewRegion(t, 3, disks...)
}

func TestMemory(t *testing.T) {
	blocktest.TestStore(t, func(*testing.T) block.Store { return blocktest.NewMemory(big) })
}

func TestSegments(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store { return open(t, block.DefaultConfig(t.TempDir())) })
}

func TestSegmentsNoSync(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		config := block.DefaultConfig(t.TempDir())
		config.NoSync = true
		config.SegmentBytes = block.MaxSize // many segments
		config.OpenFiles = 1
		return open(t, config)
	})
}

func TestRemote(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store { return region(t, 5).Client(t) })
}

func TestRemoteOverSegments(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		disks := make([]block.Disk, 3)
		for i := range disks {
			config := block.DefaultConfig(t.TempDir())
			config.NoSync = true
			disks[i] = open(t, config)
		}
		return blocktest.NewRegion(t, 2, disks...).Client(t)
	})
}

func TestNearest(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		s, err := block.NewNearest(region(t, 3).Client(t), blocktest.NewMemory(big), blocktest.NewMemory(big))
		require.NoError(t, err)
		return s
	})
}

func TestCached(t *testing.T) {
	for name, size := range map[string]int{"small": 100 << 10, "large": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			blocktest.TestStore(t, func(*testing.T) block.Store { return block.NewCached(blocktest.NewMemory(big), size) })
		})
	}
}

func TestSegmentsRefuse(t *testing.T) {
	good := block.DefaultConfig(t.TempDir())
	for name, change := range map[string]func(*block.Config){
		"no directory":    func(c *block.Config) { c.Dir = "" },
		"small segments":  func(c *block.Config) { c.SegmentBytes = 1000 },
		"no descriptors":  func(c *block.Config) { c.OpenFiles = 0 },
		"not a directory": func(c *block.Config) { c.Dir = "/dev/null" },
	} {
		bad := good
		change(&bad)
		_, err := block.OpenSegments(bad)
		require.Error(t, err, name)
	}
	s := open(t, good)
	_, err := block.OpenSegments(good)
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
	for name, disk := range map[string]block.Disk{"memory": blocktest.NewMemory(big), "segments": open(t, block.DefaultConfig(t.TempDir()))} {
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
