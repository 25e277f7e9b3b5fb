package meta

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func TestCensus(t *testing.T) {
	keys := populated(t)
	require.Equal(t, Census{Inodes: 5, Entries: 4, Blocks: 2}, Count(keys))
	k := func(n uint64) posix.BlockID { return posix.MakeBlockID(0, 1, n) }
	require.Equal(t, map[posix.BlockID]posix.Ino{k(1): 3, k(3): 3}, maps.Collect(Held(keys)), "block 2 was overwritten")
	for id := range Held(keys) {
		require.Equal(t, k(1), id, "in order, and only as far as is asked")
		break
	}

	one := &blockRecord{number: 1}
	// A damaged record is counted as far as it can be read.
	keys.Set(blockKey(k(9)), one.encode())
	keys.Set(append(blockKey(k(9)), 0), one.encode())
	keys.Set(blockKey(k(1)), []byte{0xff})
	keys.Set([]byte{prefixExtent, 1}, nil)
	require.Equal(t, map[posix.BlockID]posix.Ino{k(3): 3, k(9): 0}, maps.Collect(Held(keys)))
	Count(keys)
}
