package fsck

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
)

// A copy has what a store with the same keys has, wherever a page ends.
func TestCopiedIsLikeAStore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	key := func() []byte { return binary.BigEndian.AppendUint16(nil, uint16(random.IntN(600))) }
	for range 30 {
		store, c := kv.NewMemory(), new(copied)
		for range random.IntN(200) {
			store.Set(key(), make([]byte, random.IntN(200)))
		}
		var page []meta.Pair
		for k, v := range store.Scan(nil, nil) {
			page = append(page, meta.Pair{Key: bytes.Clone(k), Value: bytes.Clone(v)})
			if random.IntN(5) == 0 {
				require.NoError(t, c.add(page))
				page = nil
			}
		}
		if len(page) > 0 {
			require.NoError(t, c.add(page))
		}
		for range 100 {
			from, to := key(), key()
			if random.IntN(10) == 0 {
				to = nil
			}
			require.Equal(t, store.Get(from), c.Get(from))
			require.Equal(t, pairs(store, from, to), pairs(c, from, to))
		}
		require.Equal(t, pairs(store, nil, nil), pairs(c, nil, nil))
	}
}

func pairs(r meta.Reader, from, to []byte) (all []meta.Pair) {
	for k, v := range r.Scan(from, to) {
		all = append(all, meta.Pair{Key: bytes.Clone(k), Value: bytes.Clone(v)})
		if len(all) == 50 {
			break
		}
	}
	return all
}

// Pages that are not in order would hide keys from the checks.
func TestCopiedKeepsTheOrder(t *testing.T) {
	c := new(copied)
	require.NoError(t, c.add([]meta.Pair{{Key: []byte{1}}, {Key: []byte{3}}}))
	require.ErrorContains(t, c.add([]meta.Pair{{Key: []byte{3}}}), "key 03 after key 03")
	require.ErrorContains(t, c.add([]meta.Pair{{Key: []byte{5}}, {Key: []byte{4}}}), "key 04 after key 05")
}
