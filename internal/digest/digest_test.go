package digest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/digest"
)

func TestSumForgetsNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h digest.Hasher
	var sum digest.Sum
	model := map[string]string{}
	for range 5000 {
		key := fmt.Sprint(rng.IntN(200))
		if old, ok := model[key]; ok {
			sum = sum.Sub(h.Entry([]byte(key), []byte(old)))
			delete(model, key)
		}
		if rng.IntN(3) > 0 {
			model[key] = fmt.Sprint(rng.Uint64())
			sum = sum.Add(h.Entry([]byte(key), []byte(model[key])))
		}
	}
	keys := slices.Collect(maps.Keys(model))
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	entries := func(yield func(key, value []byte) bool) {
		for _, k := range keys {
			yield([]byte(k), []byte(model[k]))
		}
	}
	require.Equal(t, sum, digest.Of(entries, func([]byte) digest.Part { return digest.Whole }))
	for _, part := range []digest.Part{digest.Key, digest.None} {
		require.NotEqual(t, sum, digest.Of(entries, func(key []byte) digest.Part {
			if string(key) == keys[0] {
				return part
			}
			return digest.Whole
		}))
	}
	back, ok := digest.Parse(sum.Bytes())
	require.True(t, ok)
	require.Equal(t, sum, back)
	_, ok = digest.Parse(sum.Bytes()[1:])
	require.False(t, ok)
	require.Equal(t, digest.Sum{}, sum.Sub(sum))
}

// The bytes are those of stores: they must not change.
func TestSumsStayAsTheyWere(t *testing.T) {
	var h digest.Hasher
	require.NotEqual(t, h.Entry([]byte("a"), []byte("bc")), h.Entry([]byte("ab"), []byte("c")))
	require.Equal(t, "e53784ece33d0b3ef2904b0cbaa7d822", h.Entry([]byte("key"), []byte("value")).String())
	require.Equal(t, "ffffffffffffffffffffffffffffffff", digest.Sum{}.Sub(one(t)).String())
}

func one(t *testing.T) digest.Sum {
	b := make([]byte, digest.Size)
	b[digest.Size-2], b[digest.Size-1] = 1, digest.Scheme
	s, ok := digest.Parse(b)
	require.True(t, ok)
	return s
}

func BenchmarkEntry(b *testing.B) {
	var h digest.Hasher
	key, value := make([]byte, 24), make([]byte, 100)
	var s digest.Sum
	for b.Loop() {
		s = s.Add(h.Entry(key, value))
	}
}
