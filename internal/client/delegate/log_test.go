package delegate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

const (
	partition = uint16(2)
	session   = uint64(5)
)

var (
	root  = posix.MakeIno(partition, 1)
	dir   = posix.MakeIno(partition, 3)
	first = posix.MakeIno(partition, 1<<20)
)

func newLog(t *testing.T) *delegate.Log {
	t.Helper()
	l, err := delegate.New(delegate.Config{Partition: partition, Session: session, Number: 1, Keys: kv.NewMemory()})
	require.NoError(t, err)
	l.Granted(posix.Attr{Ino: dir, Mode: posix.TypeDir | 0o755, Nlink: 2}, root, first)
	return l
}

func create(name string) *meta.Command {
	return &meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive, Time: 5}
}

func make1(t *testing.T, l *delegate.Log, c *meta.Command) posix.Ino {
	t.Helper()
	r, outcome := l.Update(c)
	require.Equal(t, delegate.Logged, outcome)
	return r.Attr.Ino
}

// A program sees its changes at once, and a change that fails is not in the log (L1).
func TestChangesAreAnsweredFromTheCopy(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	_, outcome := l.Update(create("f"))
	require.Equal(t, delegate.Refused, outcome)
	require.Equal(t, 1, l.Len())
	r, ok := l.Query(&meta.Command{Op: meta.OpLookup, Ino: dir, Name: "f"})
	require.True(t, ok)
	require.Equal(t, f, r.Attr.Ino)
	r, ok = l.Query(&meta.Command{Op: meta.OpLookup, Ino: dir, Name: "g"})
	require.True(t, ok)
	require.Equal(t, posix.ENOENT, r.Code)
	for _, c := range []*meta.Command{
		{Op: meta.OpLookup, Ino: dir, Name: ".."}, {Op: meta.OpLookup, Ino: root, Name: "d"}, {Op: meta.OpRule, Ino: dir},
	} {
		_, ok := l.Query(c)
		require.False(t, ok, "%+v", c)
	}
	for _, c := range []*meta.Command{
		{Op: meta.OpUnlink, Ino: root, Name: "x"}, {Op: meta.OpLink, Ino: f, NewParent: root, NewName: "x"}, {Op: meta.OpPlace, Ino: dir},
	} {
		_, outcome := l.Update(c)
		require.Equal(t, delegate.Uncovered, outcome, "%+v", c)
	}
}

// The log keeps content of its own: callers reuse their buffers.
func TestContentIsCopied(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	data := []byte("text")
	make1(t, l, &meta.Command{Op: meta.OpWrite, Ino: f, Data: data, Length: 4, Time: 6})
	copy(data, "xxxx")
	x, _ := l.Next()
	require.Equal(t, "text", string(x.Ops[1].Command.Data))
	r, _ := l.Query(&meta.Command{Op: meta.OpExtents, Ino: f, Length: 10})
	require.Equal(t, "text", string(r.Extents[0].Data))
}

// Some batches are under way at a time, and again until they are acknowledged (L2).
func TestBatches(t *testing.T) {
	l := newLog(t)
	for i := range delegation.MaxOps + 10 {
		make1(t, l, create(fmt.Sprint(i)))
	}
	_, enough := l.Unsent()
	require.True(t, enough)
	x, ok := l.Next()
	require.True(t, ok)
	require.Len(t, x.Ops, delegation.MaxOps)
	n, enough := l.Unsent()
	require.Equal(t, 10, n)
	require.False(t, enough)
	make1(t, l, create("later"))
	y, ok := l.Next()
	require.True(t, ok)
	require.EqualValues(t, delegation.MaxOps+1, y.First)
	require.Len(t, y.Ops, 11)
	make1(t, l, create("even later"))
	_, on := l.Acknowledge(&delegation.Done{Next: 1})
	require.True(t, on, "the second batch was there before the first one")
	require.False(t, l.Landed(&y))
	require.Equal(t, 2, l.Flying())
	done, on := l.Acknowledge(&delegation.Done{Next: delegation.MaxOps + 3})
	require.True(t, on)
	require.Len(t, done, delegation.MaxOps+2, "the answer to a part of the second one")
	require.True(t, l.Landed(&x))
	require.False(t, l.Landed(&y))
	require.Equal(t, 1, l.Flying())
	done, on = l.Acknowledge(&delegation.Done{Next: delegation.MaxOps + 1})
	require.True(t, on, "an old answer")
	require.Empty(t, done)
	for range delegate.MaxFlights - 1 {
		_, ok = l.Next()
		require.True(t, ok)
		make1(t, l, create(fmt.Sprint("more", l.Last())))
	}
	_, ok = l.Next()
	require.False(t, ok, "enough are under way")
	_, on = l.Acknowledge(&delegation.Done{Next: y.First + 5, Stopped: true, Code: posix.EEXIST})
	require.False(t, on)
	require.Len(t, l.Pending(), 11-5+1+delegate.MaxFlights-1)
}

// The copy answers nothing of a directory that is returned (L3).
func TestReturn(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	require.Equal(t, []posix.Ino{dir}, l.Touching(&meta.Command{Op: meta.OpWrite, Ino: f}))
	require.Equal(t, []posix.Ino{dir}, l.Touching(&meta.Command{Op: meta.OpRename, Ino: root, Name: "x", NewParent: dir, NewName: "f"}))
	require.Empty(t, l.Touching(&meta.Command{Op: meta.OpUnlink, Ino: root, Name: "x"}))
	unknown := posix.MakeIno(partition, 999)
	l.Return([]posix.Ino{dir, unknown})
	require.False(t, l.Covers(dir))
	require.False(t, l.Covers(f))
	require.EqualValues(t, 1, l.Newest(f), "a replica may not have it")
	_, ok := l.Query(&meta.Command{Op: meta.OpGetAttr, Ino: f})
	require.False(t, ok)
	_, outcome := l.Update(create("g"))
	require.Equal(t, delegate.Uncovered, outcome)
	x, _ := l.Next()
	require.Len(t, x.Ops, 3)
	require.Equal(t, []posix.Ino{0, dir, unknown}, []posix.Ino{x.Ops[0].Return, x.Ops[1].Return, x.Ops[2].Return})
	_, on := l.Acknowledge(&delegation.Done{Next: 4})
	require.True(t, on)
	require.Zero(t, l.Newest(f))
	l.Granted(posix.Attr{Ino: unknown, Mode: posix.TypeDir | 0o755, Nlink: 2}, root, first+1<<30)
	require.False(t, l.Covers(unknown), "it was returned before the answer to its making came")
}

// An entry of a held directory whose inode is not covered shows only its number and type.
func TestEntriesThatAreNotCovered(t *testing.T) {
	l := newLog(t)
	c := create("sub")
	c.Mode = posix.TypeDir | 0o700
	sub := make1(t, l, c)
	require.True(t, l.Covers(sub))
	l.Return([]posix.Ino{sub})
	r, ok := l.Query(&meta.Command{Op: meta.OpLookup, Ino: dir, Name: "sub"})
	require.True(t, ok)
	require.Equal(t, posix.Attr{Ino: sub, Mode: posix.TypeDir}, r.Attr)
	r, ok = l.Query(&meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 10})
	require.True(t, ok)
	require.Len(t, r.Entries, 1)
	require.Equal(t, posix.Attr{Ino: sub, Mode: posix.TypeDir}, r.Entries[0].Attr)
}

// Inodes without a name leave the copy when they are not open.
func TestReap(t *testing.T) {
	l := newLog(t)
	f := make1(t, l, create("f"))
	make1(t, l, &meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f", Time: 6})
	l.Reap(func(posix.Ino) bool { return true }, 7)
	r, _ := l.Query(&meta.Command{Op: meta.OpGetAttr, Ino: f})
	require.Equal(t, posix.OK, r.Code)
	l.Reap(func(posix.Ino) bool { return false }, 7)
	r, _ = l.Query(&meta.Command{Op: meta.OpGetAttr, Ino: f})
	require.Equal(t, posix.ESTALE, r.Code)
}

// The log is bounded, and asks for numbers in time (L5).
func TestBounds(t *testing.T) {
	l := newLog(t)
	n := 0
	for ; !l.IsFull(); n++ {
		make1(t, l, create(fmt.Sprint(n)))
	}
	require.Less(t, n, 5000)
	for outcome := delegate.Logged; outcome != delegate.Numbers; n++ {
		_, outcome = l.Update(create(fmt.Sprint(n)))
	}
	require.True(t, l.NeedsNumbers())
	require.Equal(t, delegation.SpanSize*delegation.SpansPerGrant, n-1)
	l.AddNumbers(first + 1<<20)
	make1(t, l, create("more"))
	require.False(t, l.NeedsNumbers())
}

// BenchmarkCreate measures a create in the log with its part of a batch: the create is executed in the copy,
// encoded, decoded, and executed at a replica.
func BenchmarkCreate(b *testing.B) {
	l, err := delegate.New(delegate.Config{Partition: partition, Session: session, Number: 1, Keys: kv.NewMemory()})
	require.NoError(b, err)
	keys := kv.NewMemory()
	m, err := meta.New(keys, meta.Config{Partition: partition})
	require.NoError(b, err)
	at, err := delegation.Load(keys)
	require.NoError(b, err)
	made := m.Apply(&meta.Command{Op: meta.OpMknod, Ino: root, Name: "d", Mode: posix.TypeDir | 0o755}, 1)
	at.Begin(session, 1)
	require.True(b, at.Grant(session, made.Attr.Ino))
	l.Granted(made.Attr, root, first)
	at.AddNumbers(session, first)
	for i := range b.N {
		c := create(fmt.Sprint(i))
		c.Ino = made.Attr.Ino
		if l.NeedsNumbers() {
			more := first + posix.Ino(i+1)<<20
			l.AddNumbers(more)
			at.AddNumbers(session, more)
		}
		if _, outcome := l.Update(c); outcome != delegate.Logged {
			b.Fatal(outcome)
		}
		if l.Len() < delegation.MaxOps {
			continue
		}
		x, _ := l.Next()
		decoded, err := delegation.DecodeBatch(x.Append(nil))
		require.NoError(b, err)
		done := at.Run(m, delegation.Place{Session: session, Counter: 1}, &decoded)
		_, on := l.Acknowledge(&done)
		require.True(b, on)
	}
}
