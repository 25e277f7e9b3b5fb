package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A sealer follows the keys of its server, and the identity of the cluster is part of them. A key file that
// has lost its keys does not make the sealer accept vectors that it cannot verify.
func TestSealer(t *testing.T) {
	keys := [][]byte{[]byte("the first key")}
	s := &sealer{keys: func() [][]byte { return keys }, cluster: []byte("one")}
	other := &sealer{keys: s.keys, cluster: []byte("two")}
	v := []byte("a vector")
	tag := s.Seal(v)
	require.True(t, s.Verify(v, tag))
	require.False(t, other.Verify(v, tag))
	keys = [][]byte{[]byte("the second key"), keys[0]}
	require.True(t, s.Verify(v, tag), "the last key is valid")
	require.NotEqual(t, tag, s.Seal(v))
	keys = nil
	require.False(t, s.Verify(v, []byte("made up")))
	require.True(t, s.Verify(v, tag))
	none := &sealer{}
	require.True(t, none.Verify(v, none.Seal(v)), "without certificates clients are believed")
}
