package client_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestNames(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		cred := posix.Cred{UID: 7, GID: 8}
		d, err := c.Mkdir(ctx, cred, at(posix.Root, "d"), 0o750)
		require.NoError(t, err)
		require.Equal(t, posix.TypeDir|0o750, d.Mode)
		f, err := c.Create(ctx, cred, at(d.Ino, "f"), 0o640, 0)
		require.NoError(t, err)
		require.Equal(t, [2]uint32{7, 8}, [2]uint32{f.UID, f.GID})
		_, err = c.Create(ctx, cred, at(d.Ino, "f"), 0o640, meta.Exclusive)
		require.Equal(t, posix.EEXIST, err)
		l, err := c.Link(ctx, cred, f.Ino, at(posix.Root, "l"))
		require.NoError(t, err)
		require.EqualValues(t, 2, l.Nlink)
		_, err = c.Symlink(ctx, cred, at(d.Ino, "s"), "../l")
		require.NoError(t, err)
		_, err = c.Mknod(ctx, cred, at(d.Ino, "p"), posix.TypeFIFO|0o600, 0)
		require.NoError(t, err)
		s, err := c.Lookup(ctx, d.Ino, "s")
		require.NoError(t, err)
		target, err := c.Readlink(ctx, s.Ino)
		require.NoError(t, err)
		require.Equal(t, "../l", string(target))
		require.Equal(t, posix.ENOTEMPTY, c.Rmdir(ctx, cred, at(posix.Root, "d")))
		require.NoError(t, c.Rename(ctx, cred, at(d.Ino, "s"), at(posix.Root, "t"), 0))
		require.Equal(t, posix.EEXIST, c.Rename(ctx, cred, at(d.Ino, "p"), at(d.Ino, "f"), meta.RenameNoReplace))
		require.NoError(t, c.Unlink(ctx, cred, at(d.Ino, "f")))
		require.NoError(t, c.Unlink(ctx, cred, at(d.Ino, "p")))
		require.NoError(t, c.Rmdir(ctx, cred, at(posix.Root, "d")))
		_, err = c.Lookup(ctx, posix.Root, "d")
		require.Equal(t, posix.ENOENT, err)
	})
}

func TestPartitionsMeetInTheTree(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		local, err := c.Lookup(ctx, posix.Root, string(east))
		require.NoError(t, err)
		require.Equal(t, posix.TypeDir|0o755, local.Mode, "its own partition is asked for what the root does not know")
		entries, state, err := c.ReadDir(ctx, posix.Root, 0, 10)
		require.NoError(t, err)
		require.Equal(t, c.Version(posix.Root), state.Version)
		require.Len(t, entries, 3)
		require.Equal(t, posix.Attr{Ino: local.Ino, Mode: posix.TypeDir}, entries[1].Attr)
		require.EqualValues(t, 2, entries[1].At)
		require.EqualValues(t, 2, create(t, c, local.Ino, "n").Ino.Partition())
		_, err = c.GetAttr(ctx, posix.MakeIno(9, 1))
		require.Equal(t, posix.ESTALE, err)
	})
}

// The root of the tree shows the usage of the whole cluster, or that of the partitions that answer.
func TestStatFSOfTheRoot(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		ctx := t.Context()
		cfg := n.Config(west)
		cfg.WholeUsage = func(context.Context) (total, free uint64, err error) { return 9e12, 6e12, nil }
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		before, err := c.StatFS(ctx, posix.Root)
		require.NoError(t, err)
		write(t, c, create(t, c, posix.Root, "f").Ino, 0, make([]byte, 100_000))
		write(t, c, create(t, c, local(n, 1), "f").Ino, 0, make([]byte, 50_000))
		write(t, c, create(t, c, local(n, 2), "f").Ino, 0, make([]byte, 25_000))
		u, err := c.StatFS(ctx, posix.Root)
		require.NoError(t, err)
		require.Equal(t, client.Usage{Inodes: before.Inodes + 3, Used: 175_000, Free: 6e12 / uint64(cfg.Cluster.Copies)}, u)
		near, err := c.StatFS(ctx, local(n, 1))
		require.NoError(t, err)
		require.EqualValues(t, 50_000, near.Used, "a directory shows its own partition")
		require.Less(t, near.Free, uint64(6e12))

		n.Fail(clienttest.Down, n.Processes(2, "")...)
		u, err = c.StatFS(ctx, posix.Root)
		require.NoError(t, err)
		require.EqualValues(t, 150_000, u.Used)
	})
}

func TestXattrsAndStatFS(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, posix.Root, "f").Ino
		require.NoError(t, c.SetXattr(ctx, root, f, "user.a", []byte("1"), meta.XattrCreate))
		require.Equal(t, posix.EEXIST, c.SetXattr(ctx, root, f, "user.a", nil, meta.XattrCreate))
		require.Equal(t, posix.E2BIG, c.SetXattr(ctx, root, f, "user.b", make([]byte, posix.MaxXattr+1), 0))
		require.NoError(t, c.SetXattr(ctx, root, f, "user.b", make([]byte, posix.MaxXattr), 0))
		value, err := c.GetXattr(ctx, f, "user.a")
		require.NoError(t, err)
		require.Equal(t, "1", string(value))
		names, err := c.ListXattr(ctx, f)
		require.NoError(t, err)
		require.Equal(t, "user.a\x00user.b\x00", string(names))
		require.NoError(t, c.RemoveXattr(ctx, root, f, "user.a"))
		require.Equal(t, posix.ENODATA, c.RemoveXattr(ctx, root, f, "user.a"))

		write(t, c, f, 0, make([]byte, 100_000))
		u, err := c.StatFS(ctx, f)
		require.NoError(t, err)
		require.Equal(t, client.Usage{Inodes: 2, Used: 100_000, Free: clienttest.StorageBytes - 100_000}, u)
	})
}
