package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
)

// countedKeys count the calls of their methods.
type countedKeys struct {
	ask.Keys
	made, verified int
}

func (k *countedKeys) Seal(v []byte) []byte {
	k.made++
	return k.Keys.Seal(v)
}

func (k *countedKeys) Verify(v, tag []byte) bool {
	k.verified++
	return k.Keys.Verify(v, tag)
}

// A notary makes or verifies a tag once while vectors repeat, for a second at most. It remembers only vectors
// that it has verified or sealed.
func TestNotary(t *testing.T) {
	keys := &countedKeys{Keys: ask.Keys{[]byte("a key")}}
	n := notary{sealer: keys}
	v, other := ask.Vector{{Count: 5}}, ask.Vector{{Count: 6}}
	n.begin(time.Hour)
	first := ask.Proof{Vector: v, Tag: n.tag(v, 0)}
	n.begin(time.Hour + rememberFor - 1)
	require.Equal(t, first.Tag, n.tag(v, 0))
	require.Equal(t, 1, keys.made)
	second := ask.Proof{Vector: other, Tag: n.tag(other, 0)}
	require.NotEqual(t, first.Tag, second.Tag)
	n.begin(time.Hour + rememberFor)
	n.tag(other, 0)
	require.Equal(t, 3, keys.made)

	for range 3 {
		require.True(t, n.accepts(ask.Proofs{first, second}))
	}
	require.Equal(t, 1, keys.verified, "it has made the second itself")
	require.False(t, n.accepts(ask.Proofs{first, {Vector: other, Tag: first.Tag}}))
	require.False(t, n.accepts(ask.Proofs{{Vector: ask.Vector{{Count: 7}}, Tag: first.Tag}}))
	for count := range uint64(2 * remembered) {
		more := ask.Vector{{Count: 100 + count}}
		require.True(t, n.accepts(ask.Proofs{{Vector: more, Tag: keys.Keys.Seal(more.Append(nil))}}))
	}
	before := keys.verified
	require.True(t, n.accepts(ask.Proofs{first}))
	require.Equal(t, before+1, keys.verified, "it is forgotten")
	keys.Keys = ask.Keys{[]byte("another key")}
	require.True(t, n.accepts(ask.Proofs{first}))
	n.begin(time.Hour + 2*rememberFor)
	require.False(t, n.accepts(ask.Proofs{first}), "it is verified again")
}

// A tag carries the number of a backup, and a client cannot change the number.
func TestATagCarriesABackup(t *testing.T) {
	for _, keys := range []ask.Keys{{[]byte("a key")}, nil} {
		n := notary{sealer: keys}
		v := ask.Vector{{Count: 5}}
		n.begin(time.Hour)
		require.NotEqual(t, n.tag(v, 0), n.tag(v, 7))
		p := ask.Proof{Vector: v, Tag: n.tag(v, 7)}
		require.True(t, n.accepts(ask.Proofs{p}))
		_, number := splitTag(p.Tag)
		require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 7}, number)
		seal := slices.Clip(p.Tag[:len(p.Tag)-numberSize])
		for _, forged := range [][]byte{seal, appendTagged(seal, 8), appendTagged(n.tag(v, 0), 9)} {
			require.Equal(t, keys == nil, n.accepts(ask.Proofs{{Vector: v, Tag: forged}}), "%x", forged)
		}
	}
}
