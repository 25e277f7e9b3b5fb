package ask

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestVector(t *testing.T) {
	v := counts(1, 5)
	v = v.Merge(counts(2, 3, 4))
	require.Equal(t, counts(2, 5, 4), v)
	require.Zero(t, v.Of(9))
	v[1].Cross = multicast.Position{Final: 8, ID: multicast.MessageID{Sender: 3, Seq: 1 << 33}}
	require.False(t, counts(9, 9, 9)[1].Covers(v[1]))
	back, err := ParseToken(v.Token())
	require.NoError(t, err)
	require.Equal(t, v, back)
	_, err = ParseToken("no token")
	require.Error(t, err)
}

// counts is a vector without commands of several partitions.
func counts(of ...uint64) (v Vector) {
	for _, n := range of {
		v = append(v, Seen{Count: n})
	}
	return v
}
