package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestUnlinkedButOpenIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		f := create(t, c, posix.Root, "f").Ino
		write(t, c, f, 0, []byte("still here"))
		require.NoError(t, other.Unlink(t.Context(), root, at(posix.Root, "f")))
		_, err := other.Open(t.Context(), f)
		require.Equal(t, posix.ESTALE, err, "only who has it open may open it again")
		time.Sleep(5 * lease) // fake time, with renewals
		n.Tick()
		require.Equal(t, "still here", string(read(t, c, f, 0, 100)))
		a, err := c.Open(t.Context(), f)
		require.NoError(t, err)
		require.Zero(t, a.Nlink)
		c.Release(f)
		c.Release(f)
		time.Sleep(3 * client.DefaultRenew) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.Equal(t, posix.ESTALE, err, "reaped once nobody holds it")
	})
}

// An inode that was unlinked between lookup and open can be opened as long as it is there.
func TestOpenUnlinked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := n.Client(t, west), n.Client(t, east)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		f := create(t, other, posix.Root, "f").Ino
		require.NoError(t, other.Unlink(t.Context(), root, at(posix.Root, "f")))
		_, err := c.Open(t.Context(), f)
		require.Equal(t, posix.ESTALE, err)
		a, err := c.OpenUnlinked(t.Context(), f)
		require.NoError(t, err)
		require.Zero(t, a.Nlink)
		other.Release(f)
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.NoError(t, err, "it is held here")
		c.Release(f)
		time.Sleep(lease) // fake time
		_, err = c.OpenUnlinked(t.Context(), f)
		require.Equal(t, posix.ESTALE, err)
	})
}

// A create that gets its answer after a renewal verifies that its inode still exists.
func TestCreateAcrossARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		n.Fail(clienttest.Mute, n.Processes(0, west)...)
		done := make(chan posix.Attr, 1)
		go func() { done <- create(t, c, posix.Root, "f") }()
		time.Sleep(client.DefaultRenew + time.Second) // fake time: a renewal goes out
		n.Fail(clienttest.None, n.Processes(0, west)...)
		f := <-done
		require.NoError(t, n.Client(t, east).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		_, err := c.GetAttr(t.Context(), f.Ino)
		require.NoError(t, err, "it is held")
	})
}

// Reads continue while nothing can be ordered.
func TestOpenWithoutASession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		maker := n.Client(t, west)
		f := create(t, maker, posix.Root, "f").Ino
		maker.Release(f)
		c := n.Client(t, east)
		near := n.Processes(0, east)
		n.Fail(clienttest.Lagging, near[0])
		n.Fail(clienttest.Silent, near[1:]...)
		start := time.Now()
		_, err := c.Open(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 3*time.Second)
		n.Fail(clienttest.None, near...)
		time.Sleep(2 * client.DefaultRenew) // fake time
		require.NoError(t, n.Client(t, west).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		_, err = c.GetAttr(t.Context(), f)
		require.NoError(t, err, "a session was opened later, and holds it")
	})
}
