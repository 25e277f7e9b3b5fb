package client_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A client that knows an outdated place of an inode finds the inode after any moves.
func TestStaleLocations(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		f := create(t, c, local(n, 1), "0").Ino
		read(t, other, f, 0, 1)
		for i, p := range []uint16{2, 3, 0, 1, 3} {
			_, err := c.Move(t.Context(), f, p)
			require.NoError(t, err)
			other.Observe(c.Proofs())
			require.Equal(t, string(bytes.Repeat([]byte("x"), i)), string(read(t, other, f, 0, 10)))
			w, err := other.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
			require.NoError(t, err)
			require.EqualValues(t, i, w.Offset)
			require.Equal(t, p, where(t, other, f))
			c.Observe(other.Proofs())
		}
		require.Equal(t, f, lookup(t, other, local(n, 1), "0"), "its name has stayed")
		require.NoError(t, other.Unlink(t.Context(), root, at(local(n, 1), "0")))
		n.Check(t)
	})
}

// Directories move too, and their entries are found.
func TestMovedDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := mkdir(t, c, local(n, 1), "d")
		f := create(t, c, d, "f").Ino
		entries, before, err := other.ReadDir(ctx, d, 0, 10)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, before.Version, other.Version(d))
		_, err = c.Move(ctx, d, 2)
		require.NoError(t, err)
		other.Observe(c.Proofs())
		require.NotEqual(t, before.Version, other.Version(d), "it must be read again")
		entries, now, err := other.ReadDir(ctx, d, 0, 10)
		require.NoError(t, err)
		require.Equal(t, []meta.Entry{{Name: "f", Cookie: 3, Attr: posix.Attr{Ino: f, Mode: posix.TypeRegular}, At: 1}}, entries)
		require.Equal(t, now.Version, other.Version(d))
		require.EqualValues(t, 2, create(t, other, d, "new").Ino.Partition())
		require.NoError(t, other.Unlink(ctx, root, at(d, "f")))
		_, err = other.Create(ctx, root, at(d, "new"), 0o600, meta.Exclusive)
		require.Equal(t, posix.EEXIST, err)
		rename(t, other, at(d, "new"), at(local(n, 1), "new"))
		require.NoError(t, other.Rmdir(ctx, root, at(local(n, 1), "d")))
		n.Check(t)
	})
}

// An open file stays usable while others rename it to another partition and unlink it there.
func TestOpenFileThatMovesAndIsUnlinked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, third, ctx := n.Client(t, west), n.Client(t, east), n.Client(t, ireland), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		write(t, c, f, 0, []byte("one"))
		rename(t, other, at(local(n, 1), "f"), at(local(n, 2), "f"))
		_, err := third.Open(ctx, lookup(t, third, local(n, 2), "f"))
		require.NoError(t, err)
		write(t, c, f, 3, []byte("two"))
		require.NoError(t, other.Unlink(ctx, root, at(local(n, 2), "f")))
		time.Sleep(3 * lease) // fake time, with renewals
		write(t, c, f, 6, []byte("three"))
		require.Equal(t, "onetwothree", string(read(t, c, f, 0, 100)))
		_, err = other.Open(ctx, f)
		require.Equal(t, posix.ESTALE, err)
		c.Release(f)
		time.Sleep(2 * lease) // fake time
		require.Equal(t, "onetwothree", string(read(t, third, f, 0, 100)), "one more holds it")
		third.Release(f)
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(ctx, f)
		require.Equal(t, posix.ESTALE, err, "reaped in both partitions once nobody holds it")
		n.Check(t)
	})
}

// Blocks follow their file when they are read (T 3.8).
func TestBlocksFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		stores := map[uint16]*blocktest.Memory{}
		for p := range uint16(4) {
			stores[p] = blocktest.NewMemory(clienttest.StorageBytes)
		}
		cfg := n.Config(west)
		cfg.Blocks = func(p uint16) block.Store { return stores[p] }
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		used := func(p uint16) uint64 {
			_, free, _ := stores[p].Usage()
			return clienttest.StorageBytes - free
		}
		f := create(t, c, local(n, 1), "f").Ino
		data := bytes.Repeat([]byte("block"), 10_000)
		write(t, c, f, 0, data)
		require.EqualValues(t, len(data), used(1))
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "f"))
		require.True(t, bytes.Equal(data, read(t, c, f, 0, len(data))))
		time.Sleep(time.Second) // fake time
		require.EqualValues(t, len(data), used(2), "it was brought")
		require.NoError(t, stores[1].Delete(t.Context(), ids(t, stores[1])))
		require.True(t, bytes.Equal(data, read(t, c, f, 0, len(data))))
		write(t, c, f, uint64(len(data)), data)
		require.Equal(t, []uint64{0, uint64(2 * len(data))}, []uint64{used(1), used(2)}, "new blocks go where the file is")
		_, err = n.Client(t, east).Move(t.Context(), f, 3)
		require.NoError(t, err)
		write(t, c, f, 0, data)
		require.EqualValues(t, len(data), used(3), "also when the client finds out only as it writes")
	})
}
