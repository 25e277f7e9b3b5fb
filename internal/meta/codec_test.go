package meta_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// fullCommand uses every field.
func fullCommand() meta.Command {
	return meta.Command{
		Op: meta.OpWrite, Cred: posix.Cred{UID: 1, GID: 2}, Time: -3, Ino: posix.MakeIno(4, 5), Name: "name",
		NewParent: 6, NewName: "new", Mode: 0o644, Rdev: 7, Flags: meta.Append, Set: meta.SetMode,
		Attr:   posix.Attr{Ino: 1, Mode: 2, Nlink: 3, UID: 4, GID: 5, Rdev: 6, Size: 7, Bytes: 8, Atime: -9, Mtime: 10, Ctime: 11},
		Offset: 1 << 62, Length: 14, Data: []byte("data"),
		Blocks: []meta.Block{{ID: posix.MakeBlockID(1, 2, 3), Length: 4}, {ID: posix.MakeBlockID(1, 2, 4), Length: 6}},
	}
}

func fullResult() meta.Result {
	return meta.Result{
		Code: posix.ENOENT, Attr: fullCommand().Attr, Data: []byte("data"), Number: 1, Number2: 2,
		Entries: []meta.Entry{{Name: "a", Cookie: 3, Attr: posix.Attr{Ino: 9}}, {Name: "b", Cookie: 4}},
		Extents: []meta.Extent{
			{Offset: 1, Length: 2, Data: []byte("xy")},
			{Offset: 3, Length: 9, Block: posix.MakeBlockID(1, 2, 3), Skip: 4},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	c, r := fullCommand(), fullResult()
	gotC, err := meta.DecodeCommand(c.Append(nil))
	require.NoError(t, err)
	require.Equal(t, c, gotC)
	rights := r
	rights.Extents = slices.Clone(r.Extents)
	rights.Extents[1].Right = posix.BlockRight{9}
	gotRights, err := meta.DecodeResult(rights.Append(nil))
	require.NoError(t, err)
	require.Equal(t, rights, gotRights)
	others := r
	others.Others = []posix.Attr{{Ino: 9}, fullCommand().Attr}
	gotOthers, err := meta.DecodeResult(others.Append(nil))
	require.NoError(t, err)
	require.Equal(t, others, gotOthers)
	gotR, err := meta.DecodeResult(r.Append(nil))
	require.NoError(t, err)
	require.Equal(t, r, gotR)
}

func TestCommandsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(c *meta.Command){
		"operation 0":       func(c *meta.Command) { c.Op = 0 },
		"unknown operation": func(c *meta.Command) { c.Op = 63 },
		"long data":         func(c *meta.Command) { c.Op, c.Data = meta.OpSetXattr, make([]byte, posix.MaxXattr+1) },
		"long literal":      func(c *meta.Command) { c.Data, c.Length = make([]byte, meta.MaxLiteral+1), 10+meta.MaxLiteral+1 },
		"many blocks": func(c *meta.Command) {
			c.Blocks = make([]meta.Block, meta.MaxBlocks+1)
			for i := range c.Blocks {
				c.Blocks[i].Length = 1
			}
			c.Length = uint64(len(c.Blocks) + len(c.Data))
		},
		"too many names": func(c *meta.Command) {
			*c = meta.Command{Op: meta.OpGarbage, Blocks: make([]meta.Block, meta.MaxIDs+1)}
		},
		"a name with a length": func(c *meta.Command) {
			*c = meta.Command{Op: meta.OpDropped, Blocks: []meta.Block{{Length: 1}}}
		},
		"empty block":  func(c *meta.Command) { c.Blocks[0].Length, c.Length = 0, 10 },
		"large block":  func(c *meta.Command) { c.Blocks[0].Length, c.Length = meta.MaxBlock+1, 11+meta.MaxBlock },
		"other length": func(c *meta.Command) { c.Length++ },
	} {
		c := fullCommand()
		change(&c)
		_, err := meta.DecodeCommand(c.Append(nil))
		require.Error(t, err, name)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	c := fullCommand()
	f.Add(c.Append(nil))
	f.Add((&meta.Command{Op: meta.OpLookup, Ino: 1, Name: "a"}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := meta.DecodeCommand(b)
		if err != nil {
			return
		}
		again, err := meta.DecodeCommand(c.Append(nil))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

func FuzzDecodeResult(f *testing.F) {
	r := fullResult()
	f.Add(r.Append(nil))
	f.Add((&meta.Result{}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := meta.DecodeResult(b)
		if err != nil {
			return
		}
		again, err := meta.DecodeResult(r.Append(nil))
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.True(t, bytes.Equal(r.Append(nil), again.Append(nil)))
	})
}
