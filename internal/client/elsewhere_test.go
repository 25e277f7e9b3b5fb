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
	"github.com/globalfs/globalfs/internal/topology"
)

// spread makes a directory in partition 1 with a rule that puts its children into partition 3.
func spread(t *testing.T, c *client.Client, n *clienttest.Network) posix.Ino {
	t.Helper()
	d := mkdir(t, c, local(n, 1), "spread")
	require.NoError(t, c.Place(t.Context(), root, d, client.Placement{Spread: []topology.Region{ireland}}))
	return d
}

// The creation of an inode in another partition than its directory does not wait for the other partition.
func TestMakingElsewhereWaitsForNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		d := spread(t, c, n)
		mkdir(t, c, d, "first") // its partition has numbers
		time.Sleep(time.Minute) // fake time: all is forgotten
		n.Delay(200 * time.Millisecond)
		mkdir(t, c, d, "second") // the partitions have heard each other
		start, before := time.Now(), [2]int{n.Ordered(1), n.Ordered(3)}
		const count = 20
		for i := range count {
			sub := mkdir(t, c, d, fmt.Sprint(i))
			require.EqualValues(t, 3, sub.Partition())
		}
		require.Zero(t, time.Since(start), "no frame between replicas was waited for")
		require.LessOrEqual(t, n.Ordered(1), before[0]+2*count+1, "a seal for each post, at most, that of the second directory too")
		require.LessOrEqual(t, n.Ordered(3), before[1]+count)
		_, err := c.Mkdir(ctx, root, at(d, "first"), 0o755)
		require.Equal(t, posix.EEXIST, err)

		// Other clients see it at once, wherever they look.
		other := n.Client(t, ireland)
		f := create(t, c, d, "f")
		write(t, c, f.Ino, 0, []byte("content"))
		other.Observe(c.Proofs())
		require.Equal(t, f.Ino, lookup(t, other, d, "f"))
		require.Equal(t, "content", string(read(t, other, f.Ino, 0, 10)))
		_, err = c.Symlink(ctx, root, at(d, "link"), "target")
		require.NoError(t, err)
		_, err = c.Symlink(ctx, root, at(d, "bad"), "")
		require.Equal(t, posix.ENOENT, err)
		require.NoError(t, other.Rmdir(ctx, root, at(d, "first")))
		n.Check(t)
	})
}

// Of clients that make the same name at the same time one succeeds, and of the others nothing stays.
func TestMakingTheSameElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		a, b := n.Client(t, west), n.Client(t, east)
		d := spread(t, a, n)
		b.Observe(a.Proofs())
		inodes := func() uint64 {
			s, err := a.StatFS(t.Context(), local(n, 3))
			require.NoError(t, err)
			return s.Inodes
		}
		n.Delay(50 * time.Millisecond)
		for _, warm := range []posix.Ino{mkdir(t, a, d, "warm a"), mkdir(t, b, d, "warm b")} {
			_, err := a.GetAttr(t.Context(), warm) // it is made
			require.NoError(t, err)
		}
		before := inodes()
		for i := range 20 {
			at := at(d, fmt.Sprint(i))
			done := make(chan error, 1)
			go func() {
				_, err := b.Mkdir(t.Context(), root, at, 0o755)
				done <- err
			}()
			_, err := a.Mkdir(t.Context(), root, at, 0o755)
			require.ElementsMatch(t, []error{nil, posix.EEXIST}, []error{err, <-done})
		}
		n.Check(t)
		b.Observe(a.Proofs())
		require.Equal(t, before+20, inodes())
	})
}

// A client with an outdated directory looks again.
func TestMakingElsewhereInAChangedDirectory(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		d := spread(t, c, n)
		mkdir(t, c, d, "a")
		other.Observe(c.Proofs())
		_, err := other.SetAttr(ctx, root, d, meta.SetMode|meta.SetGID, posix.Attr{Mode: posix.SetGID | 0o755, GID: 77})
		require.NoError(t, err)
		made, err := c.Mkdir(ctx, root, at(d, "b"), 0o755)
		require.NoError(t, err)
		require.EqualValues(t, 77, made.GID)
		require.NotZero(t, made.Mode&posix.SetGID)
		got, err := c.GetAttr(ctx, made.Ino)
		require.NoError(t, err)
		require.Equal(t, made, got)

		require.NoError(t, other.Place(ctx, root, d, client.Placement{Spread: []topology.Region{east}}))
		require.EqualValues(t, 2, mkdir(t, c, d, "c").Partition())
		n.Check(t)
	})
}

// An inode gets its name also while no client reaches its partition, as long as there are numbers.
func TestMakingWhereNobodyCanReach(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		d := spread(t, c, n)
		mkdir(t, c, d, "first") // its partition has numbers
		there := n.Processes(3, ireland)
		n.Fail(clienttest.Mute, there...)
		start := time.Now()
		for i := range 10 {
			require.EqualValues(t, 3, mkdir(t, c, d, fmt.Sprint(i)).Partition())
		}
		require.Zero(t, time.Since(start))
		n.Fail(clienttest.None, there...)
		time.Sleep(time.Minute) // fake time
		got, err := c.GetAttr(t.Context(), lookup(t, c, d, "9"))
		require.NoError(t, err)
		require.True(t, got.Mode.IsDir())
		n.Check(t)
	})
}
