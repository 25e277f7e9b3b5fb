package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// If a partition cannot be reached, operations on it end in time and leave no partial result. All other
// operations continue.
func TestUnreachablePartition(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		west, east := local(n, 1), local(n, 2)
		f := create(t, c, west, "f").Ino
		d := mkdir(t, c, posix.Root, "d")
		require.NoError(t, c.Place(ctx, root, d, client.Placement{Region: "us-east-1"}))
		far := create(t, c, d, "far").Ino
		n.Fail(clienttest.Silent, n.Processes(2, "us-east-1")...)

		inTime := func(err error, start time.Time) {
			t.Helper()
			require.Equal(t, posix.ETIMEDOUT, err)
			require.LessOrEqual(t, time.Since(start), client.DefaultTimeout)
		}
		start := time.Now()
		inTime(c.Rename(ctx, root, at(west, "f"), at(east, "f"), 0), start)
		start = time.Now()
		sub, err := c.Mkdir(ctx, root, at(d, "sub"), 0o755)
		require.NoError(t, err, "its directory has numbers")
		require.Zero(t, time.Since(start))
		inTime(c.Unlink(ctx, root, at(d, "far")), start)
		start = time.Now()
		_, err = c.Link(ctx, root, f, at(east, "l"))
		inTime(err, start)

		start = time.Now()
		require.Equal(t, f, lookup(t, c, west, "f"))
		write(t, c, f, 0, []byte("x"))
		rename(t, c, at(west, "f"), at(west, "g"))
		entries, _, err := c.ReadDir(ctx, d, 0, 10)
		require.NoError(t, err)
		require.Len(t, entries, 2, "names of what is away are still listed")
		require.Zero(t, time.Since(start))

		n.Fail(clienttest.None, n.Processes(2, "us-east-1")...)
		n.Check(t)
		require.Zero(t, lookup(t, c, east, "f"))
		require.Equal(t, sub.Ino, lookup(t, c, d, "sub"))
		require.Equal(t, far, lookup(t, c, d, "far"))
		rename(t, c, at(west, "g"), at(east, "f"))
		require.Equal(t, f, lookup(t, c, east, "f"))
		n.Check(t)
	})
}

// A command that loses its votes on the way is decided nevertheless, once.
func TestCutWhileUndecided(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "f"))
		// The other partitions believe that the partition is in reach, but the next command does not reach
		// it.
		n.Fail(clienttest.Silent, n.Processes(2, east)...)
		done := make(chan error, 1)
		go func() { done <- c.Rename(ctx, root, at(local(n, 2), "f"), at(local(n, 1), "f"), meta.RenameNoReplace) }()
		time.Sleep(5 * time.Second) // fake time
		n.Fail(clienttest.None, n.Processes(2, east)...)
		require.NoError(t, <-done)
		require.Equal(t, f, lookup(t, c, local(n, 1), "f"))
		require.Zero(t, lookup(t, c, local(n, 2), "f"))
		n.Check(t)
	})
}

// Retries through other replicas move a file once.
func TestRetriesAcrossPartitionsAreExecutedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := n.Client(t, west), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		require.NoError(t, c.OpenPartition(ctx, 2))
		n.Fail(clienttest.Mute, n.Processes(1, west)[:2]...)
		n.Fail(clienttest.Mute, n.Processes(2, east)[0])
		rename(t, c, at(local(n, 1), "f"), at(local(n, 2), "f"))
		_, err := c.Link(ctx, root, f, at(local(n, 1), "l"))
		require.NoError(t, err, "EEXIST if it were executed twice")
		rename(t, c, at(local(n, 2), "f"), at(posix.Root, "f"))
		require.NoError(t, c.Unlink(ctx, root, at(local(n, 1), "l")))
		n.Fail(clienttest.None, append(n.Processes(1, west), n.Processes(2, east)...)...)
		require.Equal(t, f, lookup(t, c, posix.Root, "f"))
		n.Check(t)
	})
}

// No other update changes the objects of a command of several partitions until it is decided; reads continue.
// If its other party is silent, the command is aborted.
func TestUndecided(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other, ctx := n.Client(t, west), n.Client(t, east), t.Context()
		f := create(t, c, local(n, 1), "f").Ino
		n.Delay(time.Second)
		renamed := make(chan error, 1)
		move := func() { renamed <- c.Rename(ctx, root, at(local(n, 1), "f"), at(local(n, 2), "f"), 0) }
		go move()
		time.Sleep(900 * time.Millisecond) // fake time: both partitions have prepared it, the vote is on its way
		start := time.Now()
		require.Equal(t, f, lookup(t, other, local(n, 1), "f"))
		require.Zero(t, time.Since(start))
		write(t, other, f, 0, []byte("x"))
		require.NotZero(t, time.Since(start), "not before it is decided")
		require.NoError(t, <-renamed)
		require.Zero(t, lookup(t, other, local(n, 1), "f"))
		require.Equal(t, "x", string(read(t, other, f, 0, 2)))

		rename(t, other, at(local(n, 2), "f"), at(local(n, 1), "f"))
		time.Sleep(5 * time.Second) // fake time
		n.Fail(clienttest.Silent, n.Processes(2, east)...)
		go move()
		time.Sleep(time.Millisecond) // fake time: it is prepared, as nobody has asked yet whether the other partition is in reach
		start = time.Now()
		_, err := other.SetAttr(ctx, root, f, meta.SetMode, posix.Attr{Mode: 0o600})
		require.NoError(t, err)
		require.Less(t, time.Since(start), 5*time.Second, "what is held for it is free, and it is not executed later")
		require.Equal(t, posix.ETIMEDOUT, <-renamed)
		n.Fail(clienttest.None, n.Processes(2, east)...)
		n.Check(t)
		require.Equal(t, f, lookup(t, other, local(n, 1), "f"))
		require.Zero(t, lookup(t, other, local(n, 2), "f"))
	})
}
