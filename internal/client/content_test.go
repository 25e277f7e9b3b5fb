package client_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Reads return the written content, for all sizes, holes and overwritten ranges.
func TestContentAgainstAModel(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		random := rand.New(rand.NewPCG(1, 2))
		var model []byte
		grow := func(to int) { model = append(model, make([]byte, max(0, to-len(model)))...) }
		for range 300 {
			offset, data := random.IntN(5<<20), make([]byte, 1+random.IntN(1<<random.IntN(22)))
			if random.IntN(3) == 0 {
				offset = random.IntN(8 << 10)
			}
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			switch random.IntN(4) {
			case 0, 1:
				write(t, c, f, uint64(offset), data)
				grow(offset + len(data))
				copy(model[offset:], data)
			case 2:
				require.NoError(t, c.Fallocate(t.Context(), root, f, uint64(offset), uint64(len(data)), meta.FallocateZero))
				grow(offset + len(data))
				clear(model[offset:][:len(data)])
			case 3:
				_, err := c.SetAttr(t.Context(), root, f, meta.SetSize, posix.Attr{Size: uint64(offset)})
				require.NoError(t, err)
				grow(offset)
				model = model[:offset]
			}
			from := random.IntN(len(model) + 1)
			length := random.IntN(6 << 20)
			want := model[from:min(len(model), from+length)]
			require.True(t, bytes.Equal(want, read(t, c, f, uint64(from), length)), "at %d, %d bytes", from, length)
			for _, length := range []int{length, 1 << 20, 1} {
				want := model[from:min(len(model), from+length)]
				viewed, err := c.View(t.Context(), f, make([]byte, length), uint64(from), time.Second)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, viewed), "at %d, view of %d bytes", from, length)
			}
		}
	})
}

func TestSmallFilesAreInline(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, make([]byte, 4096))
		_, free, _ := n.Blocks.Usage()
		require.EqualValues(t, clienttest.StorageBytes, free, "no block")
		write(t, c, f, 4000, make([]byte, 97))
		_, free, _ = n.Blocks.Usage()
		require.EqualValues(t, clienttest.StorageBytes-97, free, "a block")
	})
}

func TestAppendsOfTwoClientsDoNotOverlap(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		f := create(t, n.Client(t, west), posix.Root, "log").Ino
		var all sync.WaitGroup
		for i, region := range spec.Regions {
			c := n.Client(t, region)
			all.Go(func() {
				for range 20 {
					w, err := c.Write(context.Background(), root, client.Write{Ino: f, Data: bytes.Repeat([]byte{byte(i + 1)}, 5000), Append: true})
					require.NoError(t, err)
					require.Zero(t, w.Offset%5000)
				}
			})
		}
		all.Wait()
		c := n.Client(t, east)
		content := read(t, c, f, 0, 1<<20)
		require.Len(t, content, 60*5000)
		for i := 0; i < len(content); i += 5000 {
			require.Equal(t, bytes.Repeat(content[i:i+1], 5000), content[i:i+5000])
		}
	})
}

func TestWriteTakesSetIDAway(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f, err := c.Create(t.Context(), root, at(posix.Root, "f"), 0o6755, 0)
		require.NoError(t, err)
		require.Equal(t, posix.TypeRegular|0o6755, write(t, c, f.Ino, 0, []byte("x")).Attr.Mode)
		w, err := c.Write(t.Context(), root, client.Write{Ino: f.Ino, Data: []byte("x"), KillSetID: true})
		require.NoError(t, err)
		require.Equal(t, posix.TypeRegular|0o755, w.Attr.Mode)

		f, err = c.Create(t.Context(), root, at(posix.Root, "g"), 0o6777, 0)
		require.NoError(t, err)
		for _, x := range []struct {
			by   posix.Cred
			mode posix.Mode
		}{{root, 0o6777}, {posix.Cred{UID: 7, GID: 7}, 0o777}} {
			require.NoError(t, c.Fallocate(t.Context(), x.by, f.Ino, 0, 100, 0))
			a, err := c.GetAttr(t.Context(), f.Ino)
			require.NoError(t, err)
			require.Equal(t, posix.TypeRegular|x.mode, a.Mode)
		}
	})
}

func TestSeek(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, posix.Root, "f").Ino
		const far = 1 << 40
		write(t, c, f, 4096, make([]byte, 8192))
		write(t, c, f, far, make([]byte, 3<<20))
		_, err := c.SetAttr(ctx, root, f, meta.SetSize, posix.Attr{Size: far + 4<<20})
		require.NoError(t, err)
		for _, s := range []struct {
			from, data uint64
			hole       uint64
		}{{0, 4096, 0}, {5000, 5000, 12288}, {12288, far, 12288}, {far + 5, far + 5, far + 3<<20}} {
			at, err := c.SeekData(ctx, f, s.from)
			require.NoError(t, err)
			require.Equal(t, s.data, at, "data from %d", s.from)
			at, err = c.SeekHole(ctx, f, s.from)
			require.NoError(t, err)
			require.Equal(t, s.hole, at, "hole from %d", s.from)
		}
		_, err = c.SeekData(ctx, f, far+3<<20)
		require.Equal(t, posix.ENXIO, err)
		_, err = c.SeekHole(ctx, f, far+4<<20)
		require.Equal(t, posix.ENXIO, err)
	})
}

// A block that was overwritten and deleted between the two steps of a read (T 3.4.2) is looked
// for again.
func TestReadOutlivesCollectedBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer := n.Client(t, west)
		f := create(t, writer, posix.Root, "f").Ino
		write(t, writer, f, 0, bytes.Repeat([]byte("old."), 2048))
		cfg := n.Config(west)
		deleted := false
		cfg.Blocks = func(uint16) block.Store {
			return storeWithHook{n.Blocks, func(id block.ID) {
				if !deleted {
					deleted = true
					write(t, writer, f, 0, bytes.Repeat([]byte("new."), 2048))
					require.NoError(t, n.Blocks.Delete(t.Context(), []block.ID{id}))
				}
			}}
		}
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, bytes.Repeat([]byte("new."), 2048), read(t, c, f, 0, 8192))
	})
}

type storeWithHook struct {
	block.Store
	before func(block.ID)
}

func (s storeWithHook) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	s.before(id)
	return s.Store.Get(ctx, id, into)
}

func TestStorageErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, make([]byte, 8192))
		for _, x := range []struct {
			failure error
			want    posix.Code
		}{
			{block.ErrNoSpace, posix.ENOSPC}, {fmt.Errorf("disk: %w", block.ErrCorrupt), posix.EIO}, {block.ErrUnavailable, posix.ETIMEDOUT},
		} {
			before, err := c.GetAttr(t.Context(), f)
			require.NoError(t, err)
			n.Blocks.Fail(x.failure)
			ordered := n.Ordered(0)
			_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: make([]byte, 8192)})
			require.Equal(t, x.want, err)
			if x.want != posix.ETIMEDOUT { // otherwise sessions were renewed meanwhile
				require.Equal(t, ordered, n.Ordered(0), "nothing is multicast before the blocks are there")
			}
			after, err := c.GetAttr(t.Context(), f)
			require.NoError(t, err)
			require.Equal(t, before, after)
			_, err = c.Read(t.Context(), f, make([]byte, 10), 0)
			require.Equal(t, x.want, err)
		}
	})
}

// A write or read that does not fit one command is split into several commands or windows.
func TestWriteOfManyBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		data := bytes.Repeat([]byte("0123456789abcde"), 5<<20) // 75 MiB
		write(t, c, f, 7, data)
		require.True(t, bytes.Equal(data, read(t, c, f, 7, len(data)+1)))
		w, err := c.Write(t.Context(), root, client.Write{Ino: f, Data: data, Append: true})
		require.NoError(t, err)
		require.EqualValues(t, 7+len(data), w.Offset)
		require.EqualValues(t, 7+2*len(data), w.Attr.Size)
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: data, Offset: posix.MaxSize - 5})
		require.Equal(t, posix.EFBIG, err)
		w, err = c.Write(t.Context(), root, client.Write{Ino: f})
		require.NoError(t, err)
		require.Zero(t, w.Bytes)
	})
}

// Staged content is written by one command, also if the file has moved or the session is lost since.
func TestPartsAreStoredAhead(t *testing.T) {
	parts := func(t *testing.T, c *client.Client, f posix.Ino) ([]client.Part, []byte) {
		var all []client.Part
		var want []byte
		for i := range 3 {
			data := bytes.Repeat([]byte{byte('a' + i)}, 10_000+i)
			want = append(want, data...)
			draft := block.NewDraft(data)
			s, err := c.Stage(t.Context(), f, draft)
			require.NoError(t, err)
			all = append(all, client.Part{Data: draft, Staged: s})
		}
		all[1].Staged.Drop()
		all[1].Staged = nil
		return all, want
	}
	check := func(t *testing.T, n *clienttest.Network, between func(c *client.Client, f posix.Ino)) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, []byte("head"))
		all, want := parts(t, c, f)
		between(c, f)
		before := n.Ordered(0) + n.Ordered(1) + n.Ordered(2)
		w, err := c.WriteParts(t.Context(), root, client.Write{Ino: f, Append: true}, all)
		require.NoError(t, err)
		require.EqualValues(t, 4, w.Offset)
		require.Equal(t, len(want), w.Bytes)
		require.Less(t, n.Ordered(0)+n.Ordered(1)+n.Ordered(2)-before, 10, "some renew sessions")
		require.Equal(t, "head"+string(want), string(read(t, c, f, 0, 100_000)))
	}
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		check(t, n, func(*client.Client, posix.Ino) {})
	})
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		check(t, n, func(*client.Client, posix.Ino) { cutOff(n) })
	})
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		check(t, n, func(c *client.Client, f posix.Ino) {
			far := lookup(t, c, posix.Root, string(east))
			require.NoError(t, c.Rename(t.Context(), root, at(posix.Root, "f"), at(far, "f"), 0))
		})
	})
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		all, _ := parts(t, c, f)
		n.Blocks.Fail(block.ErrNoSpace)
		_, err := c.WriteParts(t.Context(), root, client.Write{Ino: f}, all)
		require.ErrorIs(t, err, posix.ENOSPC, "the second part")
		_, err = c.Stage(t.Context(), f, block.NewDraft([]byte("x")))
		require.ErrorIs(t, err, posix.ENOSPC)
		_, err = c.WriteParts(t.Context(), root, client.Write{Ino: f, Offset: posix.MaxSize}, all)
		require.ErrorIs(t, err, posix.EFBIG)
	})
}
