package block_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
)

func TestMemory(t *testing.T) {
	blocktest.TestStore(t, func(*testing.T) block.Store { return blocktest.NewMemory(blocktest.Big) })
}

func TestNearest(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		s, err := block.NewNearest(blocktest.NewMemoryRegion(t, 3).Client(t), blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
		require.NoError(t, err)
		return s
	})
}

func TestCached(t *testing.T) {
	for name, size := range map[string]int{"small": 100 << 10, "large": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			blocktest.TestStore(t, func(*testing.T) block.Store {
				return block.NewCached(blocktest.NewMemory(blocktest.Big), block.NewMemory(size))
			})
		})
	}
}
