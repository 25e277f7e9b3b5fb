package delegate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func writeBlock(ino posix.Ino) *meta.Command {
	b := meta.Block{ID: posix.MakeBlockID(partition, session, 1), Length: 9}
	return &meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{b}, Length: 9, Time: 6}
}

// A write of a block that is not stored is answered, and in no batch, nor are the changes behind it (L7).
func TestWithheldOperations(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	make1(t, l, writeBlock(f))
	l.Withhold(l.Last())
	make1(t, l, create("behind"))
	r, ok := l.Query(&meta.Command{Op: meta.OpGetAttr, Ino: f})
	require.True(t, ok)
	require.EqualValues(t, 9, r.Attr.Size)
	n, enough := l.Unsent()
	require.Equal(t, 3, n)
	require.False(t, enough)
	x, ok := l.Next()
	require.True(t, ok)
	require.Len(t, x.Ops, 1)
	_, ok = l.Next()
	require.False(t, ok)
	l.Acknowledge(&delegation.Done{Next: 2})
	_, ok = l.Next()
	require.False(t, ok)
	l.Stored(2)
	x, ok = l.Next()
	require.True(t, ok)
	require.EqualValues(t, 2, x.First)
	require.Len(t, x.Ops, 2)
	_, _, ok = l.Void(2)
	require.False(t, ok, "it is under way")
	_, _, ok = l.Void(1)
	require.False(t, ok, "it is acknowledged")
	l.Withhold(9) // there is none
}

// A full batch does not wait for an operation behind it.
func TestAFullBatchBeforeAWithheldOperation(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	for range delegation.MaxOps - 1 {
		make1(t, l, &meta.Command{Op: meta.OpSetAttr, Ino: f, Set: meta.SetMode, Attr: posix.Attr{Mode: 0o600}, Time: 7})
	}
	make1(t, l, writeBlock(f))
	l.Withhold(l.Last())
	_, enough := l.Unsent()
	require.True(t, enough)
	x, ok := l.Next()
	require.True(t, ok)
	require.Len(t, x.Ops, delegation.MaxOps)
	_, enough = l.Unsent()
	require.False(t, enough)
}

// A write of a block that cannot be stored becomes one of nothing, which a partition executes, and its
// directory is to be returned.
func TestVoid(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	make1(t, l, writeBlock(f))
	l.Withhold(l.Last())
	lost, dirs, ok := l.Void(2)
	require.True(t, ok)
	require.Equal(t, []posix.Ino{dir}, dirs)
	require.Len(t, lost.Command.Blocks, 1)
	x, ok := l.Next()
	require.True(t, ok)
	x, err := delegation.DecodeBatch(x.Append(nil))
	require.NoError(t, err)
	require.Empty(t, x.Ops[1].Command.Blocks)

	at, err := delegate.New(delegate.Config{Partition: partition, Session: session, Number: 1, Keys: kv.NewMemory()})
	require.NoError(t, err)
	at.Granted(posix.Attr{Ino: dir, Mode: posix.TypeDir | 0o755, Nlink: 2}, root, first)
	for i := range x.Ops {
		x.Ops[i].Command.Child = 0
		_, outcome := at.Update(&x.Ops[i].Command)
		require.Equal(t, delegate.Logged, outcome)
	}
	r, ok := at.Query(&meta.Command{Op: meta.OpGetAttr, Ino: f})
	require.True(t, ok)
	require.Zero(t, r.Attr.Size)
}
