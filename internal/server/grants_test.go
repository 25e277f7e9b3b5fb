package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func keysOf(texts ...string) func() [][]byte {
	var keys [][]byte
	for _, text := range texts {
		keys = append(keys, []byte(text))
	}
	return func() [][]byte { return keys }
}

// All servers with a key in common give and accept the same rights. Another client, another block and another
// cluster have other rights.
func TestGrants(t *testing.T) {
	of := func(cluster string, keys ...string) *grants {
		return newGrants(&sealer{keys: keysOf(keys...), cluster: []byte(cluster)})
	}
	id := posix.MakeBlockID(1, 2, 3)
	right := of("c", "new", "old").Grant("a", id)
	require.True(t, of("c", "new").holds("a", id, right))
	require.True(t, of("c", "newer", "new").holds("a", id, right))
	require.False(t, of("c", "old").holds("a", id, right))
	require.False(t, of("c", "new").holds("b", id, right))
	require.False(t, of("c", "new").holds("a", posix.MakeBlockID(1, 2, 4), right))
	require.False(t, of("d", "new").holds("a", id, right))
	require.False(t, of("c", "new").holds("a", id, posix.BlockRight{}))

	none := newGrants(&sealer{})
	require.Zero(t, none.Grant("a", id))
	require.True(t, none.holds("a", id, posix.BlockRight{}), "a cluster without keys cannot tell")
}

// The remembered ciphers of clients belong to the present keys.
func TestGrantsFollowTheKeys(t *testing.T) {
	keys := keysOf("one")
	g := newGrants(&sealer{keys: func() [][]byte { return keys() }})
	id := posix.MakeBlockID(1, 2, 3)
	first := g.Grant("a", id)
	keys = keysOf("two", "one")
	second := g.Grant("a", id)
	require.NotEqual(t, first, second)
	require.True(t, g.holds("a", id, first))
	keys = keysOf("three", "two")
	require.False(t, g.holds("a", id, first))
	require.True(t, g.holds("a", id, second))
}

func BenchmarkGrant(b *testing.B) {
	g := newGrants(&sealer{keys: keysOf("one")})
	for b.Loop() {
		g.Grant("client", posix.MakeBlockID(1, 2, 3))
	}
}

func BenchmarkHolds(b *testing.B) {
	g := newGrants(&sealer{keys: keysOf("one")})
	right := g.Grant("client", posix.MakeBlockID(1, 2, 3))
	for b.Loop() {
		g.holds("client", posix.MakeBlockID(1, 2, 3), right)
	}
}
