package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecentForgetsWhatWasUsedLongestAgo(t *testing.T) {
	r := newRecent[int, string](2)
	r.put(1, "a")
	r.put(2, "b")
	_, ok := r.get(1)
	require.True(t, ok)
	r.put(3, "c")
	_, ok = r.get(2)
	require.False(t, ok)
	r.put(1, "A")
	v, ok := r.get(1)
	require.True(t, ok)
	require.Equal(t, "A", v)
	r.drop(1)
	r.drop(1)
	_, ok = r.get(1)
	require.False(t, ok)
	require.Equal(t, 1, r.order.Len())
	require.Len(t, r.known, 1)
}
