package kv

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// An ascending read finds what Get finds, with and without values in the cache, in tables and in the journal.
func TestAscendingFindsWhatGetFinds(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	key := func() []byte { return binary.BigEndian.AppendUint16(nil, uint16(random.IntN(400))) }
	fill := func() {
		for range 100 {
			s.Set(key(), key()[:random.IntN(3)])
			s.Delete(key())
		}
		require.NoError(t, s.Commit(false))
	}
	fill()
	require.NoError(t, s.Close()) // the next process makes a table of the journal
	s, err = Open(dir, Options{ValueCache: 1})
	require.NoError(t, err)
	fill()
	for range 50 {
		var keys [][]byte
		for range 1 + random.IntN(60) {
			keys = append(keys, key())
		}
		slices.SortFunc(keys, slices.Compare)
		get, end := s.base.ascending()
		for _, k := range keys {
			found, err := get(k)
			require.NoError(t, err)
			require.Equal(t, s.Get(k), found, "%x", k)
		}
		require.NoError(t, end())
	}
	_, end := s.base.ascending()
	require.NoError(t, end(), "without a search")
	require.NoError(t, s.Close())
}

// A search does not go on to keys of another kind: it would pass over all of them that were deleted.
func TestAscendingStaysInItsKind(t *testing.T) {
	s, err := Open(t.TempDir(), Options{ValueCache: 1})
	require.NoError(t, err)
	for _, key := range [][]byte{{1, 1}, {2, 1}, {0xff, 1}} {
		s.Set(key, []byte("x"))
	}
	require.NoError(t, s.Commit(false))
	a := &ascending{level: s.base.(*level)}
	for _, key := range [][]byte{{1, 2}, {2, 1}, {2, 2}, {3}, {0xff, 1}, {0xff, 2}} {
		found, err := a.get(key)
		require.NoError(t, err)
		require.Equal(t, s.Get(key) != nil, found != nil, "%x", key)
		require.Equal(t, found != nil, a.valid, "%x: no later key of its kind", key)
	}
	require.NoError(t, a.end())
	require.NoError(t, s.Close())
}
