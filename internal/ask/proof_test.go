package ask

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Proofs cover each other entry by entry: only proofs with an uncovered entry are kept.
func TestProofsThatAreCovered(t *testing.T) {
	var p Proofs
	p = p.Add(Proof{Vector: counts(1, 5)})
	before := p
	p = p.Add(Proof{Vector: counts(3, 1)})
	require.Len(t, p, 2)
	require.Len(t, before, 1, "others may still read it")
	require.Equal(t, counts(3, 5), p.Merged())
	require.Equal(t, p, p.Add(Proof{Vector: counts(2, 1)}))
	require.Equal(t, Proofs{{Vector: counts(3, 6)}}, p.Add(Proof{Vector: counts(3, 6)}))
	further := Proofs{{Vector: Vector{{Count: 4}}}}
	require.Len(t, further.Add(Proof{Vector: Vector{Seen{Count: 3}.Observe(2)}}), 2, "only it says that place 2 is open")
}

// A tag is good for the one vector, under the key that made it and the keys beside it.
func TestKeys(t *testing.T) {
	first, second := []byte("the first key of all"), []byte("the second one")
	before, after := Keys{first}, Keys{second, first}
	v := sample().Append(nil)
	require.True(t, before.Verify(v, before.Seal(v)))
	require.True(t, after.Verify(v, before.Seal(v)))
	require.False(t, before.Verify(v, after.Seal(v)))
	require.False(t, before.Verify(counts(1).Append(nil), before.Seal(v)))
	require.False(t, before.Verify(v, nil))
	require.False(t, before.Verify(v, before.Seal(v)[:8]))
	require.True(t, Keys{}.Verify(v, Keys{}.Seal(v)), "without keys nothing is verified")
}

func TestTokens(t *testing.T) {
	p := Proofs{{sample(), []byte("tag")}, {counts(1), []byte("other")}}
	back, err := ParseToken(p.Token())
	require.NoError(t, err)
	require.Equal(t, p, back)
	for _, text := range []string{"no token", "AQ", p.Token() + "AA"} {
		_, err = ParseToken(text)
		require.Error(t, err, text)
	}
}

// Counts of different histories have nothing in common: the newest history replaces the others.
func TestHistories(t *testing.T) {
	old, restored := Seen{Count: 90, Known: 90, Open: nil}.Observe(95), Seen{History: 1 << 32, Count: 7, Known: 7}
	require.Equal(t, restored, old.Merge(restored))
	require.Equal(t, restored, restored.Merge(old))
	require.True(t, restored.Covers(old))
	require.False(t, old.Covers(restored))
	require.True(t, old.IsPast(restored))
	require.False(t, Seen{}.IsPast(restored), "nothing was seen")
	require.True(t, restored.IsAhead(old))
	require.False(t, old.IsAhead(restored))
	require.True(t, Seen{History: 1 << 32, Count: 8}.IsAhead(restored))
	require.Equal(t, uint64(1<<32), restored.Observe(9).History)
}
