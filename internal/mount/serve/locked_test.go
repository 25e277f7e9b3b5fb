package serve

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// A notice is set aside while a request holds its directory, and repeated once after the last one is
// answered.
func TestNoticesAreSetAside(t *testing.T) {
	l := newLocked()
	again := 0
	aside := func(dir posix.Ino) bool { return l.setAside(dir, "name", func() { again++ }) }
	require.False(t, aside(7))
	l.begin([]posix.Ino{7})
	l.begin([]posix.Ino{7, 8})
	require.True(t, aside(7))
	require.True(t, aside(7))
	require.False(t, aside(9))
	l.end([]posix.Ino{7})
	require.Zero(t, again)
	l.end([]posix.Ino{7, 8})
	require.Equal(t, 1, again)
	require.False(t, aside(7))

	l.begin([]posix.Ino{anyNode, 7}) // it may remove any directory
	require.True(t, aside(9))
	l.end([]posix.Ino{anyNode, 7})
	require.Equal(t, 2, again)

	l.begin([]posix.Ino{7}) // a request that the kernel sends again
	require.True(t, aside(7))
	l.forget([]posix.Ino{7})
	require.Equal(t, 2, again, "the kernel holds the directory")
	l.begin([]posix.Ino{7})
	l.end([]posix.Ino{7})
	require.Equal(t, 3, again)
	require.Zero(t, l.count)
	require.Empty(t, l.requests)
	require.Empty(t, l.aside)

	for i := range maxAside + 10 {
		l.begin([]posix.Ino{posix.Ino(i + 1)})
		require.True(t, aside(posix.Ino(i+1)))
	}
	require.Equal(t, maxAside, l.count)
}

func TestNodesLocked(t *testing.T) {
	r := func(op uint32) *request {
		raw := make([]byte, inHeaderSize+8)
		binary.NativeEndian.PutUint32(raw[4:], op)
		binary.NativeEndian.PutUint64(raw[16:], 7)
		binary.NativeEndian.PutUint64(raw[inHeaderSize:], 8)
		return &request{raw: raw}
	}
	require.Equal(t, []posix.Ino{7}, r(opLookup).nodesLocked())
	require.Equal(t, []posix.Ino{anyNode, 7}, r(opRmdir).nodesLocked())
	require.Equal(t, []posix.Ino{anyNode, 7, 8}, r(opRename2).nodesLocked())
	require.Empty(t, r(opRead).nodesLocked())
	require.Empty(t, r(opGetAttr).nodesLocked())
}
