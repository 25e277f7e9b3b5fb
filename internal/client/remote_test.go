package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// local gives the root of a region's partition: 1 to 3, in the order of spec.
func local(n *clienttest.Network, partition uint16) posix.Ino {
	return n.Plan.Partitions[partition].Root()
}

func mkdir(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Ino {
	t.Helper()
	a, err := c.Mkdir(t.Context(), root, at(dir, name), 0o755)
	require.NoError(t, err)
	return a.Ino
}

func rename(t *testing.T, c *client.Client, from, to client.Name) {
	t.Helper()
	require.NoError(t, c.Rename(t.Context(), root, from, to, 0))
}

// where returns the partition of an inode.
func where(t *testing.T, c *client.Client, ino posix.Ino) uint16 {
	t.Helper()
	l, err := c.Locate(t.Context(), ino)
	require.NoError(t, err)
	return l.Partition
}

// lookup returns the inode of a name, 0 if there is none.
func lookup(t *testing.T, c *client.Client, dir posix.Ino, name string) posix.Ino {
	t.Helper()
	a, err := c.Lookup(t.Context(), dir, name)
	if err == posix.ENOENT {
		return 0
	}
	require.NoError(t, err)
	return a.Ino
}

// A file moves with all its content to the partition of its new directory; its number stays.
func TestRenameMovesAFile(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		west, east := local(n, 1), local(n, 2)
		f := create(t, c, west, "f").Ino
		write(t, c, f, 0, []byte("small"))
		require.NoError(t, c.SetXattr(t.Context(), root, f, "user.a", []byte("1"), 0))
		rename(t, c, at(west, "f"), at(east, "g"))

		require.EqualValues(t, 2, where(t, c, f))
		require.EqualValues(t, 1, f.Partition())
		require.Zero(t, lookup(t, c, west, "f"))
		other.Observe(c.Proofs())
		require.Equal(t, f, lookup(t, other, east, "g"))
		require.Equal(t, "small", string(read(t, other, f, 0, 10)))
		value, err := other.GetXattr(t.Context(), f, "user.a")
		require.NoError(t, err)
		require.Equal(t, "1", string(value))
		write(t, other, f, 5, []byte(" file"))
		c.Observe(other.Proofs())
		require.Equal(t, "small file", string(read(t, c, f, 0, 20)))

		rename(t, other, at(east, "g"), at(posix.Root, "h"))
		require.EqualValues(t, 0, where(t, other, f))
		rename(t, other, at(posix.Root, "h"), at(west, "f"))
		require.EqualValues(t, 1, where(t, other, f), "it is back home")
		c.Observe(other.Proofs())
		require.Equal(t, "small file", string(read(t, c, f, 0, 20)))
		n.Check(t)
	})
}

// A directory stays in its partition, with its contents. The mover gets a task with the new partition.
func TestRenameOfADirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		west, east := local(n, 1), local(n, 2)
		d := mkdir(t, c, west, "d")
		f := create(t, c, d, "f").Ino
		rename(t, c, at(west, "d"), at(east, "d"))
		require.EqualValues(t, 1, where(t, c, d))
		require.Equal(t, d, lookup(t, c, east, "d"))
		require.Equal(t, f, lookup(t, c, d, "f"))
		up, err := c.Lookup(ctx, d, "..")
		require.NoError(t, err)
		require.Equal(t, east, up.Ino)
		require.NotZero(t, up.Nlink, "its own partition is asked")
		tasks, err := c.Tasks(ctx)
		require.NoError(t, err)
		require.Equal(t, []client.PartitionTask{{Partition: 1, Task: meta.Task{Dir: d, Target: 2}}}, tasks)
		l, err := c.Locate(ctx, d)
		require.NoError(t, err)
		require.Equal(t, &tasks[0].Task, l.Task)

		// New files go where their directory is, and it can be renamed within its new partition.
		g := create(t, c, d, "g").Ino
		require.EqualValues(t, 1, g.Partition())
		rename(t, c, at(east, "d"), at(east, "e"))
		require.Equal(t, g, lookup(t, c, d, "g"))
		n.Check(t)
	})
}

func TestRenameOverWhatIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		west, east := local(n, 1), local(n, 2)
		old, f := create(t, c, east, "f").Ino, create(t, c, west, "f").Ino
		c.Release(old)
		require.Equal(t, posix.EEXIST, c.Rename(ctx, root, at(west, "f"), at(east, "f"), meta.RenameNoReplace))
		rename(t, c, at(west, "f"), at(east, "f"))
		require.Equal(t, f, lookup(t, c, east, "f"))
		time.Sleep(2 * lease) // fake time
		_, err := c.GetAttr(ctx, old)
		require.Equal(t, posix.ESTALE, err)

		empty, full := mkdir(t, c, east, "empty"), mkdir(t, c, east, "full")
		create(t, c, full, "x")
		d := mkdir(t, c, west, "d")
		require.Equal(t, posix.EISDIR, c.Rename(ctx, root, at(east, "f"), at(west, "d"), 0))
		require.Equal(t, posix.ENOTDIR, c.Rename(ctx, root, at(west, "d"), at(east, "f"), 0))
		require.Equal(t, posix.ENOTEMPTY, c.Rename(ctx, root, at(west, "d"), at(east, "full"), 0))
		require.Equal(t, posix.ENOENT, c.Rename(ctx, root, at(west, "none"), at(east, "full"), 0))
		rename(t, c, at(west, "d"), at(east, "empty"))
		require.Equal(t, d, lookup(t, c, east, "empty"))
		_, err = c.Mkdir(ctx, root, at(empty, "x"), 0o755)
		require.Contains(t, []error{posix.ENOENT, posix.ESTALE}, err, "nothing is made in a directory that is gone")
		n.Check(t)
	})
}

func TestExchangeAcrossPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		west, east := local(n, 1), local(n, 2)
		d, f := mkdir(t, c, west, "x"), create(t, c, east, "x").Ino
		e := mkdir(t, c, posix.Root, "y")
		require.Equal(t, posix.ENOENT, c.Rename(ctx, root, at(west, "x"), at(east, "none"), meta.RenameExchange))
		require.NoError(t, c.Rename(ctx, root, at(west, "x"), at(east, "x"), meta.RenameExchange))
		require.Equal(t, []posix.Ino{f, d}, []posix.Ino{lookup(t, c, west, "x"), lookup(t, c, east, "x")})
		require.NoError(t, c.Rename(ctx, root, at(east, "x"), at(posix.Root, "y"), meta.RenameExchange))
		require.Equal(t, []posix.Ino{e, d}, []posix.Ino{lookup(t, c, east, "x"), lookup(t, c, posix.Root, "y")})
		inside := mkdir(t, c, d, "inside")
		require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(posix.Root, "y"), at(inside, "z"), 0))
		n.Check(t)
	})
}

// No directory comes to be below itself, however many partitions its way up leads through.
func TestNoCycles(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		var chain []posix.Ino
		for p := range uint16(4) {
			chain = append(chain, mkdir(t, c, local(n, p), "d"))
		}
		for p := 3; p > 0; p-- { // d of partition 3 comes below that of 2, and so on
			rename(t, c, at(local(n, uint16(p)), "d"), at(chain[p-1], "d"))
		}
		for p := 1; p < 4; p++ {
			require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(posix.Root, "d"), at(chain[p], "loop"), 0))
		}
		require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(chain[0], "d"), at(chain[3], "loop"), 0))
		require.Equal(t, posix.EINVAL, c.Rename(ctx, root, at(posix.Root, "d"), at(chain[2], "d"), meta.RenameExchange))
		require.Equal(t, posix.ENOTEMPTY, c.Rename(ctx, root, at(chain[2], "d"), at(posix.Root, "d"), 0))
		rename(t, c, at(chain[2], "d"), at(chain[0], "e"))
		require.Equal(t, chain[3], lookup(t, c, chain[0], "e"))
		n.Check(t)
	})
}

// Two clients that rename two directories below each other at the same time: one of them must fail.
func TestConcurrentRenamesMakeNoCycle(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		for i := range 10 {
			name := fmt.Sprint(i)
			x, y := mkdir(t, a, local(n, 1), name), mkdir(t, b, local(n, 2), name)
			done := make(chan error, 1)
			go func() { done <- b.Rename(t.Context(), root, at(local(n, 2), name), at(x, "y"), 0) }()
			first := a.Rename(t.Context(), root, at(local(n, 1), name), at(y, "x"), 0)
			require.ElementsMatch(t, []error{nil, posix.EINVAL}, []error{first, <-done})
		}
		n.Check(t)
	})
}

func TestLinksAndUnlinksAcrossPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		west, east := local(n, 1), local(n, 2)
		f := create(t, c, west, "f")
		c.Release(f.Ino)
		l, err := c.Link(ctx, root, f.Ino, at(east, "l"))
		require.NoError(t, err)
		require.EqualValues(t, 2, l.Nlink)
		_, err = other.Link(ctx, root, f.Ino, at(east, "l"))
		require.Equal(t, posix.EEXIST, err)
		other.Observe(c.Proofs())
		require.Equal(t, f.Ino, lookup(t, other, east, "l"))

		// With two names it stays where it is.
		rename(t, c, at(west, "f"), at(posix.Root, "f"))
		require.EqualValues(t, 1, where(t, c, f.Ino))
		require.NoError(t, other.Unlink(ctx, root, at(east, "l")), "the other client knows the old names only")
		c.Observe(other.Proofs())
		a, err := c.GetAttr(ctx, f.Ino)
		require.NoError(t, err)
		require.EqualValues(t, 1, a.Nlink)
		require.NoError(t, c.Unlink(ctx, root, at(posix.Root, "f")))
		require.Equal(t, posix.ENOENT, c.Unlink(ctx, root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(ctx, f.Ino)
		require.Equal(t, posix.ESTALE, err)
		n.Check(t)
	})
}

func TestRemoteDirectories(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		west, east := local(n, 1), local(n, 2)
		mkdir(t, c, west, "d")
		rename(t, c, at(west, "d"), at(east, "d"))
		d := lookup(t, c, east, "d")
		f := create(t, c, d, "f").Ino
		require.Equal(t, posix.ENOTEMPTY, c.Rmdir(ctx, root, at(east, "d")))
		require.Equal(t, posix.EISDIR, c.Unlink(ctx, root, at(east, "d")))
		rename(t, c, at(d, "f"), at(east, "f"))
		require.Equal(t, posix.ENOTDIR, c.Rmdir(ctx, root, at(east, "f")))
		require.Equal(t, f, lookup(t, c, east, "f"))
		require.NoError(t, c.Rmdir(ctx, root, at(east, "d")))
		require.Zero(t, lookup(t, c, east, "d"))
		require.Equal(t, posix.EBUSY, c.Rmdir(ctx, root, at(posix.Root, "us-east-1")), "roots of partitions stay")
		require.Equal(t, posix.EBUSY, c.Rename(ctx, root, at(posix.Root, "us-east-1"), at(west, "e"), 0))
		n.Check(t)
	})
}
