package meta_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func block(n uint64, length uint32) meta.Block {
	return meta.Block{ID: posix.MakeBlockID(0, 1, n), Length: length}
}

// Many tiny appends make few extents, and the same ones in every replica.
func TestTinyAppendsAreJoined(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "log", 0o600)
	var want []byte
	for range 1000 {
		line := []byte("twenty bytes a line\n")
		r := f.do(meta.Command{Op: meta.OpWrite, Ino: ino, Data: line, Flags: meta.Append})
		require.Equal(t, meta.Result{Attr: r.Attr, Number: uint64(len(want))}, r)
		want = append(want, line...)
	}
	var got []byte
	for _, e := range f.extents(ino) {
		got = append(got, e.Data...)
	}
	require.Equal(t, want, got)
	require.Len(t, f.extents(ino), 5)
}

func TestOverwritingInsideALiteralKeepsOneExtent(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Data: bytes.Repeat([]byte("a"), meta.MaxLiteral)})
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 1000, Data: bytes.Repeat([]byte("b"), 100)})
	e := f.extents(ino)
	require.Len(t, e, 1)
	require.Equal(t, strings.Repeat("a", 1000)+strings.Repeat("b", 100)+strings.Repeat("a", meta.MaxLiteral-1100), string(e[0].Data))
}

// A block that was split is dropped when its last part goes.
func TestBlocksAreDroppedWithTheirLastPart(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	old := block(1, 3000)
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{old}})
	f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 1000, Blocks: []meta.Block{block(2, 1000)}})
	require.Equal(t, []meta.Extent{
		{Offset: 0, Length: 1000, Block: old.ID},
		{Offset: 1000, Length: 1000, Block: block(2, 0).ID},
		{Offset: 2000, Length: 1000, Block: old.ID, Skip: 2000},
	}, f.extents(ino))
	require.Empty(t, f.dropped())
	f.must(meta.Command{Op: meta.OpFallocate, Ino: ino, Length: 1500, Flags: meta.FallocatePunch})
	require.Empty(t, f.dropped())
	a := f.must(meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize, Attr: posix.Attr{Size: 1700}})
	require.EqualValues(t, 200, a.Bytes)
	require.Equal(t, []posix.BlockID{old.ID}, f.dropped())
	f.must(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
	f.m.Reap(ino, 77)
	require.Equal(t, []posix.BlockID{old.ID, block(2, 0).ID}, f.dropped())
}

func TestFarOffsets(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	f.fails(posix.EFBIG, meta.Command{Op: meta.OpWrite, Ino: ino, Offset: posix.MaxSize, Data: []byte("x")})
	f.fails(posix.EFBIG, meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 1<<64 - 1, Data: []byte("x")})
	f.fails(posix.EFBIG, meta.Command{Op: meta.OpFallocate, Ino: ino, Offset: 1 << 63, Length: 1 << 63})
	f.fails(posix.EFBIG, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize, Attr: posix.Attr{Size: 1 << 63}})
	a := f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Offset: posix.MaxSize - 1, Data: []byte("x")})
	require.EqualValues(t, posix.MaxSize, a.Size)
	require.EqualValues(t, 1, a.Bytes)
	f.fails(posix.EFBIG, meta.Command{Op: meta.OpWrite, Ino: ino, Flags: meta.Append, Data: []byte("x")})
	r := f.do(meta.Command{Op: meta.OpExtents, Ino: ino, Offset: 1<<64 - 2, Length: 1<<64 - 1})
	require.Equal(t, meta.Result{Attr: a}, r)
	require.Len(t, f.extents(ino), 1)
}

func TestAnEmptyWriteChangesNothing(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	before := f.stat(ino)
	require.Equal(t, before, f.must(meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 1 << 20}))
}

func TestXattrLimits(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	f.must(meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: "user.big", Data: make([]byte, posix.MaxXattr)})
	require.Equal(t, posix.E2BIG, f.m.Apply(&meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: "user.big", Data: make([]byte, posix.MaxXattr+1)}, 1).Code)
	name := func(i int) string {
		return "user." + strings.Repeat(string(rune('a'+i%26)), 240) + strings.Repeat("x", i/26)
	}
	for i := 0; ; i++ {
		r := f.do(meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: name(i)})
		if r.Code != posix.OK {
			require.Equal(t, posix.ENOSPC, r.Code)
			break
		}
	}
	list := f.do(meta.Command{Op: meta.OpListXattr, Ino: ino})
	require.LessOrEqual(t, len(list.Data), 64<<10)
	require.Greater(t, len(list.Data), 63<<10)
}

// An answer has a limited number of extents. It contains the offset up to which it is complete, and a further
// query returns the other extents.
func TestManyExtentsComeInParts(t *testing.T) {
	f := newFS(t)
	file := f.make(posix.Root, "f", posix.TypeRegular|0o644)
	const count = meta.MaxExtents + 10
	for i := range uint64(count) {
		f.must(meta.Command{Op: meta.OpWrite, Ino: file, Offset: 2 * i, Blocks: []meta.Block{{ID: posix.MakeBlockID(0, 1, i), Length: 1}}})
	}
	ask := meta.Command{Op: meta.OpExtents, Ino: file, Length: posix.MaxSize}
	first := f.do(ask)
	require.Len(t, first.Extents, meta.MaxExtents)
	require.EqualValues(t, 2*meta.MaxExtents, first.Number)
	ask.Offset = first.Number
	rest := f.do(ask)
	require.Len(t, rest.Extents, 10)
	require.Equal(t, rest.Attr.Size, rest.Number)
}
