package kv

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/digest"
)

var digestAt, digestApart = []byte("\x7fdigest"), []byte("\x7fapart")

// digestPart: for keys that begin with 1 the value does not count.
func digestPart(key []byte) digest.Part {
	switch {
	case string(key) == string(digestApart):
		return digest.None
	case key[0] == '1':
		return digest.Key
	}
	return digest.Whole
}

func sumOf(s *Store) digest.Sum {
	return digest.Of(s.Scan(nil, nil), func(key []byte) digest.Part {
		if string(key) == string(digestAt) {
			return digest.None
		}
		return digestPart(key)
	})
}

// A digest of another scheme is not used: the store is read.
func TestDigestOfAnotherScheme(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		s.Set([]byte("a"), []byte("1"))
		var h digest.Hasher
		of := h.Entry([]byte("a"), []byte("other")).Bytes()
		s.Set(digestAt, of[:16])
		require.NoError(t, s.Commit(false))
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		require.Equal(t, h.Entry([]byte("a"), []byte("1")), s.Digest())
	})
}

// A value that does not count changes nothing.
func TestValueThatDoesNotCount(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		s.Set([]byte("1"), []byte("one"))
		require.NoError(t, s.Commit(false))
		before := s.Digest()
		require.NotEqual(t, digest.Sum{}, before)
		s.Set([]byte("1"), []byte("two"))
		require.NoError(t, s.Commit(false))
		require.Equal(t, before, s.Digest())
		s.Delete([]byte("1"))
		require.Equal(t, digest.Sum{}, s.Digest())
	})
}

// Invariant K3, and the digest of pending writes.
func TestDigestIsThatOfTheKeys(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		rng := rand.New(rand.NewPCG(3, 4))
		s.Set([]byte("before"), []byte("older stores have no digest"))
		require.NoError(t, s.Commit(false))
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		for i := range 4000 {
			key := fmt.Appendf(nil, "%d", rng.IntN(300))
			switch rng.IntN(12) {
			case 0:
				require.NoError(t, s.Commit(false))
				stored, ok := digest.Parse(s.Get(digestAt))
				require.True(t, ok)
				require.Equal(t, s.Digest(), stored)
			case 1, 2, 3:
				s.Delete(key)
			case 4:
				s.Set(digestApart, fmt.Append(nil, i))
			default:
				s.Set(key, fmt.Append(nil, rng.IntN(3)))
			}
			if i%16 == 0 {
				require.Equal(t, sumOf(s), s.Digest())
			}
		}
		require.NoError(t, s.Commit(true))
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		require.Equal(t, sumOf(s), s.Digest(), "read again")
	})
}

// A store that was changed behind its back keeps the difference, until it is corrected.
func TestCorrectDigest(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		s.Set([]byte("a"), []byte("1"))
		s.Set([]byte("b"), []byte("1"))
		require.NoError(t, s.Commit(false))
		s.summed = nil
		s.Set([]byte("a"), []byte("2"))
		require.NoError(t, s.Commit(false))
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		difference := sumOf(s).Sub(s.Digest())
		require.NotEqual(t, digest.Sum{}, difference)
		s.Set([]byte("a"), []byte("3"))
		s.Set([]byte("c"), []byte("3"))
		require.NoError(t, s.Commit(false))
		require.Equal(t, difference, sumOf(s).Sub(s.Digest()))
		s.Correct(difference)
		require.Equal(t, sumOf(s), s.Digest())
		s.Delete([]byte("c"))
		require.NoError(t, s.Commit(false))
		require.NoError(t, s.KeepDigest(digestAt, digestPart))
		require.Equal(t, sumOf(s), s.Digest())
	})
}

// BenchmarkCommit measures the commit of a batch of ten keys, with and without a digest.
func BenchmarkCommit(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("digest=%t", kept), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			require.NoError(b, err)
			defer s.Close()
			if kept {
				require.NoError(b, s.KeepDigest(digestAt, digestPart))
			}
			value := make([]byte, 100)
			n := 0
			for b.Loop() {
				for range 10 {
					n++
					key := fmt.Appendf(nil, "%016d", n*7919%50_000)
					_ = s.Get(key) // as in the state machine
					value[0], value[1] = byte(n), byte(n>>8)
					s.Set(key, value)
				}
				if err := s.Commit(false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
