package region_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
)

// openDisk opens a store without sync in a directory of its own, which the test closes.
func openDisk(t testing.TB) *disk.Store {
	config := disk.DefaultConfig(t.TempDir())
	config.NoSync = true
	s, err := disk.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestRemote(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store { return blocktest.NewMemoryRegion(t, 5).Client(t) })
}

func TestRemoteOverDisks(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		disks := make([]region.Disk, 3)
		for i := range disks {
			disks[i] = openDisk(t)
		}
		return blocktest.NewRegion(t, 2, disks...).Client(t)
	})
}
