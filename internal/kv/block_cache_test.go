package kv

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/syndtr/goleveldb/leveldb"
)

// requireCheapReads fails if each read of a random key, out of keys, loads more than two or three blocks of 4
// KiB from the files. Compaction reads the same files for a time, so one good measurement is enough.
func requireCheapReads(t *testing.T, db *database, keys uint64, random *rand.Rand) {
	t.Helper()
	const reads, most = 2000, 12 << 10 // a filter and an index have 40 KiB
	var before, after leveldb.DBStats
	each := 0
	for range 10 {
		require.NoError(t, db.db.Stats(&before))
		for range reads {
			_, err := db.db.Get(binary.BigEndian.AppendUint64(nil, random.Uint64N(keys)), nil)
			require.NoError(t, err)
		}
		require.NoError(t, db.db.Stats(&after))
		if each = int(after.IORead-before.IORead) / reads; each < most {
			return
		}
	}
	require.Less(t, each, most)
}

// A read of a large store loads no filter and no index: the cache has grown, with the writes and when the
// store is opened again.
func TestBlockCacheGrowsWithTheStore(t *testing.T) {
	const keys, least = 200_000, 64 << 10
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	s, err := Open(dir, Options{BlockCache: least, WriteBuffer: 1 << 20, ValueCache: 1})
	require.NoError(t, err)
	require.Equal(t, least, s.base.(*level).blocks.blocks.Capacity())
	value := make([]byte, 100)
	for i := range uint64(keys) {
		for at := 0; at < len(value); at += 4 {
			binary.BigEndian.PutUint32(value[at:], random.Uint32()) // cannot be compressed
		}
		s.Set(binary.BigEndian.AppendUint64(nil, i), value)
		if i%1000 == 999 {
			require.NoError(t, s.Commit(false))
		}
	}
	requireCheapReads(t, s.base.(*level).database, keys, random)
	require.NoError(t, s.Close())

	s, err = Open(dir, Options{BlockCache: least, ValueCache: 1})
	require.NoError(t, err)
	requireCheapReads(t, s.base.(*level).database, keys, random)
	require.NoError(t, s.Close())
}

// A view is read without the cache: the owner's blocks stay there.
func TestViewLeavesTheCache(t *testing.T) {
	dir := t.TempDir()
	s := openDisk(t, dir)
	for i := range uint64(50_000) {
		s.Set(binary.BigEndian.AppendUint64(nil, i), make([]byte, 100))
	}
	require.NoError(t, s.Commit(false))
	require.NoError(t, s.Close())
	s = openDisk(t, dir)
	view, err := s.View()
	require.NoError(t, err)
	read := 0
	for range view.Scan(nil, nil) {
		read++
	}
	require.NoError(t, view.Err())
	view.Close()
	require.Equal(t, 50_000, read)
	var stats leveldb.DBStats
	require.NoError(t, s.base.(*level).db.Stats(&stats))
	require.Zero(t, stats.BlockCacheSize)
	require.NoError(t, s.Close())
}
