package meta_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// TestShardsAreState: a partition keeps the shards of its birth, and they are checked.
func TestShardsAreState(t *testing.T) {
	keys := kv.NewMemory()
	_, err := meta.New(keys, meta.Config{Partition: 2, Shards: []uint16{2, 5}})
	require.NoError(t, err)
	require.Empty(t, meta.Check(keys))
	m, err := meta.New(keys, meta.Config{Partition: 2, Shards: []uint16{2, 5, 7}})
	require.NoError(t, err)
	elsewhere := 0
	for i := range 20 {
		c := meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(2, 1), Name: fmt.Sprint(i), Mode: posix.TypeDir | 0o755}
		if meta.ShardOf([]uint16{2, 5}, c.Ino, c.Name) == 2 {
			require.Equal(t, posix.OK, m.Apply(&c, uint64(i+1)).Code, "shard 7 was added too late")
			continue
		}
		elsewhere++
		require.Equal(t, posix.EHELD, m.Apply(&c, uint64(i+1)).Code, "the numbers of shard 5 have not come")
		file := meta.Command{Op: meta.OpMknod, Ino: c.Ino, Name: "file" + c.Name, Mode: posix.TypeRegular | 0o644}
		require.Equal(t, posix.OK, m.Apply(&file, uint64(100+i)).Code, "files stay with their directory")
	}
	require.NotZero(t, elsewhere)

	for _, shards := range [][]uint16{{1, 1, 2}, {3, 4}} {
		other := kv.NewMemory()
		_, err := meta.New(other, meta.Config{Partition: 2, Shards: shards})
		require.NoError(t, err)
		require.NotEmpty(t, meta.Check(other))
	}
}

// TestAddShards: more shards come behind the present ones, and stay; nothing else changes them.
func TestAddShards(t *testing.T) {
	keys := kv.NewMemory()
	m, err := meta.New(keys, meta.Config{Partition: 2})
	require.NoError(t, err)
	for _, shards := range [][]uint16{nil, {2}, {5, 2}, {2, 2}, {5, 7}} {
		require.False(t, meta.AddShards(m, shards), "%v", shards)
		require.Equal(t, []uint16{2}, meta.Shards(m))
	}
	wanted := []uint16{2, 5}
	require.True(t, meta.AddShards(m, wanted))
	require.True(t, meta.AddShards(m, []uint16{2, 5, 7}))
	for _, shards := range [][]uint16{wanted, {2, 5, 7}, {2, 7, 5, 8}, {5, 2, 7, 8}} {
		require.False(t, meta.AddShards(m, shards), "%v", shards)
	}
	m, err = meta.New(keys, meta.Config{Partition: 2})
	require.NoError(t, err)
	require.Equal(t, []uint16{2, 5, 7}, meta.Shards(m))
	require.Empty(t, meta.Check(keys))
	stored, err := meta.StoredShards(keys)
	require.NoError(t, err)
	require.Equal(t, meta.Shards(m), stored)
}

// TestShardOf: directories spread over the shards, also those with the same name.
func TestShardOf(t *testing.T) {
	shards := []uint16{1, 4, 7, 9}
	for _, of := range []func(i int) uint16{
		func(i int) uint16 { return meta.ShardOf(shards, posix.MakeIno(1, 1), fmt.Sprint("dir", i)) },
		func(i int) uint16 { return meta.ShardOf(shards, posix.MakeIno(1, uint64(i+1)), "src") },
	} {
		count := map[uint16]int{}
		for i := range 4000 {
			count[of(i)]++
		}
		for _, p := range shards {
			require.InDelta(t, 1000, count[p], 150, "%v", count)
		}
	}
}
