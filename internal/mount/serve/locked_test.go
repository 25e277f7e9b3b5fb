package serve

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func holds(nodes ...posix.Ino) (all []hold) {
	for _, node := range nodes {
		all = append(all, hold{node: node})
	}
	return all
}

// A notice is set aside while a request holds its directory, and repeated once after the last one is
// answered.
func TestNoticesAreSetAside(t *testing.T) {
	l := newLocked()
	again := 0
	aside := func(dir posix.Ino) bool { return l.setAside(hold{node: dir}, "name", func() { again++ }) }
	require.False(t, aside(7))
	l.begin(holds(7)...)
	l.begin(holds(7, 8)...)
	require.True(t, aside(7))
	require.True(t, aside(7))
	require.False(t, aside(9))
	l.end(holds(7)...)
	require.Zero(t, again)
	l.end(holds(7, 8)...)
	require.Equal(t, 1, again)
	require.False(t, aside(7))

	l.begin(holds(anyNode, 7)...) // it may remove any directory
	require.True(t, aside(9))
	l.end(holds(anyNode, 7)...)
	require.Equal(t, 2, again)

	l.begin(holds(7)...) // a request that the kernel sends again
	require.True(t, aside(7))
	l.forget(holds(7)...)
	require.Equal(t, 2, again, "the kernel holds the directory")
	l.begin(holds(7)...)
	l.end(holds(7)...)
	require.Equal(t, 3, again)
	require.Zero(t, l.count)
	require.Empty(t, l.requests)
	require.Empty(t, l.aside)

	for i := range maxAside + 10 {
		l.begin(holds(posix.Ino(i + 1))...)
		require.True(t, aside(posix.Ino(i+1)))
	}
	require.Equal(t, maxAside, l.count)
	missed := 0
	l.overflow = func() { missed++ }
	l.end(holds(1)...)
	l.end(holds(2)...)
	require.Equal(t, 1, missed, "the notices that did not fit")
}

// A notice of attributes waits for the answers that describe the inode, and for no others.
func TestNoticesOfAttributesAreSetAside(t *testing.T) {
	l := newLocked()
	again := 0
	aside := func() bool { return l.setAside(hold{7, true}, "", func() { again++ }) }
	l.begin(holds(7, anyNode)...)
	require.False(t, aside(), "the kernel takes no lock for it")
	l.begin(hold{7, true})
	require.True(t, aside())
	require.True(t, aside())
	l.end(holds(7, anyNode)...)
	require.Zero(t, again)
	l.end(hold{7, true})
	require.Equal(t, 1, again)
	require.Empty(t, l.requests)
}

func TestNodesLocked(t *testing.T) {
	r := func(op uint32) *request {
		raw := make([]byte, inHeaderSize+8)
		binary.NativeEndian.PutUint32(raw[4:], op)
		binary.NativeEndian.PutUint64(raw[16:], 7)
		binary.NativeEndian.PutUint64(raw[inHeaderSize:], 8)
		return &request{raw: raw}
	}
	require.Equal(t, holds(7), r(opLookup).nodesLocked())
	require.Equal(t, holds(anyNode, 7), r(opRmdir).nodesLocked())
	require.Equal(t, holds(anyNode, 7, 8), r(opRename2).nodesLocked())
	require.Empty(t, r(opRead).nodesLocked())
	require.Empty(t, r(opGetAttr).nodesLocked())
}
