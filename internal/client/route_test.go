package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// A reader that has adopted the proofs of a write sees the write, also at a replica that lags (T 3.4.1).
func TestObserveIsCausal(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		writer, reader := n.Client(t, west), n.Client(t, east)
		f := create(t, writer, posix.Root, "f").Ino
		lagging := n.Processes(0, east)[0]
		n.Fail(clienttest.Lagging, lagging)
		write(t, writer, f, 0, []byte("message"))
		require.Empty(t, read(t, reader, f, 0, 10), "nobody told it")
		reader.Observe(writer.Proofs())
		require.Equal(t, "message", string(read(t, reader, f, 0, 10)), "the lagging replica does not answer, the next one does")
		require.True(t, reader.Proofs().Merged().Of(0).Covers(writer.Proofs().Merged().Of(0)))
		reader.Observe(ask.Proofs{{Vector: make(ask.Vector, 1000)}})
		require.LessOrEqual(t, len(reader.Proofs().Merged()), len(n.Plan.Partitions), "of partitions that exist")
	})
}

func TestNearestReplicaIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, east)
		order := n.Processes(0, east)
		stat := func() {
			t.Helper()
			_, err := c.GetAttr(t.Context(), posix.Root)
			require.NoError(t, err)
		}
		stat()
		require.Equal(t, []int{1, 0}, []int{n.Calls(order[0]), n.Calls(order[1])})
		n.Fail(clienttest.Down, order[0])
		stat()
		stat()
		require.Equal(t, []int{2, 2}, []int{n.Calls(order[0]), n.Calls(order[1])}, "the one that failed is left alone")
		n.Fail(clienttest.None, order[0])
		time.Sleep(11 * time.Second) // fake time
		stat()
		require.Equal(t, []int{3, 2}, []int{n.Calls(order[0]), n.Calls(order[1])}, "it is asked again after a while")
		n.Fail(clienttest.Busy, order[0])
		stat()
		require.Equal(t, 3, n.Calls(order[1]))
		time.Sleep(2 * time.Second)
		n.Fail(clienttest.Left, order[0])
		calls := n.Calls(order[0])
		stat()
		stat()
		require.Equal(t, []int{calls + 1, 5}, []int{n.Calls(order[0]), n.Calls(order[1])}, "one that was replaced is left alone")
	})
}

// An update that loses its answer is sent to another replica and executed once.
func TestRetryIsExecutedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		n.Fail(clienttest.Mute, n.Processes(0, west)[0])
		for i := range 5 {
			w, err := c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
			require.NoError(t, err)
			require.EqualValues(t, i, w.Offset)
		}
		_, err := c.Mkdir(t.Context(), root, at(posix.Root, "d"), 0o755)
		require.NoError(t, err, "EEXIST if it were executed twice")
	})
}

func TestTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		create(t, c, posix.Root, "f")
		all := n.Processes(0, west)
		for _, fault := range []clienttest.Fault{clienttest.Down, clienttest.Silent, clienttest.Busy, clienttest.Left} {
			n.Fail(fault, all...)
			start := time.Now()
			_, err := c.GetAttr(t.Context(), posix.Root)
			require.Equal(t, posix.ETIMEDOUT, err)
			require.Equal(t, client.DefaultTimeout, time.Since(start))
			require.Equal(t, posix.ETIMEDOUT, c.Unlink(t.Context(), root, at(posix.Root, "f")))
		}
		n.Fail(clienttest.None, all...)
		require.NoError(t, c.Unlink(t.Context(), root, at(posix.Root, "f")), "what timed out was never executed")
	})
}

// While a network is cut, the near replica still answers reads, for any number of updates that time out.
func TestReadsStayNearWithoutAQuorum(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		create(t, c, posix.Root, "f")
		near := n.Processes(0, west)
		n.Fail(clienttest.Lagging, near[0])
		n.Fail(clienttest.Silent, near[1:]...)
		require.Equal(t, posix.ETIMEDOUT, c.Unlink(t.Context(), root, at(posix.Root, "f")))
		start := time.Now()
		_, err := c.Lookup(t.Context(), posix.Root, "f")
		require.NoError(t, err)
		require.Zero(t, time.Since(start))
	})
}

// Other partitions go on while one is cut off.
func TestGenuine(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		local := n.Plan.Partitions[1].Root()
		create(t, c, local, "before")
		n.Fail(clienttest.Silent, n.Processes(0, west)...)
		start := time.Now()
		create(t, c, local, "meanwhile")
		require.Zero(t, time.Since(start))
		time.Sleep(3 * lease) // fake time
		n.Tick()
		f, err := c.Open(t.Context(), create(t, c, local, "later").Ino)
		require.NoError(t, err, "its session was renewed")
		require.NotZero(t, f.Nlink)
	})
}

// C6: queries end with their context, updates only before they are multicast.
func TestInterrupts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		all := n.Processes(0, west)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		before := n.Ordered(0)
		_, err := c.Write(ended, root, client.Write{Ino: f, Data: []byte("x")})
		require.Equal(t, posix.EINTR, err)
		require.Equal(t, before, n.Ordered(0))

		n.Fail(clienttest.Silent, all...)
		soon, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err = c.GetAttr(soon, f)
		require.Equal(t, posix.EINTR, err)
		require.Equal(t, time.Second, time.Since(start))

		soon, cancel = context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		time.AfterFunc(3*time.Second, func() { n.Fail(clienttest.None, all...) })
		_, err = c.Write(soon, root, client.Write{Ino: f, Data: []byte("x")})
		require.NoError(t, err, "its outcome is awaited")
	})
}
