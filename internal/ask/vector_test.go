package ask

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVector(t *testing.T) {
	v := counts(1, 5)
	v = v.Merge(counts(2, 3, 4))
	require.Equal(t, counts(2, 5, 4), v)
	require.Zero(t, v.Of(9))
	require.True(t, v.Of(9).IsZero())
	v[1] = v[1].Observe(6)
	require.False(t, Seen{Count: 9}.Covers(v[1]), "it does not know of the open place")
	require.True(t, counts(9, 9, 9)[1].Covers(v[1]), "all is decided at 9")
	require.True(t, v.Covers(counts(2, 5)))
	require.False(t, v.Covers(counts(2, 5, 4, 1)))
}

// Changes of a vector do not change its copies, and a merge does not change the vector that is merged in.
func TestVectorsShareNothingThatChanges(t *testing.T) {
	v := Vector{State(9, []uint64{3, 5}, []uint64{3})}
	before := v.Clone()
	other := Vector{State(10, []uint64{5}, []uint64{5}).Observe(11), {Count: 4}}
	otherBefore := other.Clone()
	v = v.Merge(other)
	v[0] = v[0].Observe(12)
	require.Equal(t, Vector{State(9, []uint64{3, 5}, []uint64{3})}, before)
	require.Equal(t, otherBefore, other)
	require.Equal(t, []uint64{5, 11}, other[0].Open)
	require.Equal(t, []uint64{5, 11, 12}, v[0].Open, "3 is decided at 10")
}

// counts returns a vector without commands of several partitions.
func counts(of ...uint64) (v Vector) {
	for _, n := range of {
		v = append(v, Seen{Count: n, Known: n})
	}
	return v
}
