package recent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheValueThatWasUsedLongestAgoGoes(t *testing.T) {
	r := New[int, string](2)
	r.Put(1, "a")
	r.Put(2, "b")
	_, ok := r.Get(1)
	require.True(t, ok)
	r.Put(3, "c")
	_, ok = r.Get(2)
	require.False(t, ok)
	r.Put(1, "A")
	v, ok := r.Get(1)
	require.True(t, ok)
	require.Equal(t, "A", v)
	r.Drop(1)
	r.Drop(1)
	_, ok = r.Get(1)
	require.False(t, ok)
	require.Equal(t, 1, r.order.Len())
	require.Len(t, r.elements, 1)
}
