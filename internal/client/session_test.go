package client_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// cutOff makes the replicas of partition 0 ignore all calls until the client's lease has ended.
func cutOff(n *clienttest.Network) {
	all := n.Processes(0, west)
	n.Fail(clienttest.Silent, all...)
	time.Sleep(3 * lease) // fake time
	n.Fail(clienttest.None, all...)
	n.Tick()
	n.Tick()
}

func TestExpiredSessionIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		f := create(t, c, posix.Root, "f").Ino
		cutOff(n)
		write(t, c, f, 0, []byte("first"))
		require.NoError(t, n.Client(t, east).Unlink(t.Context(), root, at(posix.Root, "f")))
		time.Sleep(2 * lease) // fake time
		require.Equal(t, "first", string(read(t, c, f, 0, 10)), "the new session holds it too")
	})
}

// A new session claims the open inodes before others release them.
func TestNewSessionClaimsOpenFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Renew = 100 * lease // its session expires
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f := create(t, c, posix.Root, "f").Ino
		time.Sleep(3 * lease) // fake time
		n.Tick()
		other := n.Client(t, east)
		require.NoError(t, other.Unlink(t.Context(), root, at(posix.Root, "f")))
		c.Observe(other.Proofs())
		write(t, c, f, 0, []byte("claimed"))
		time.Sleep(3 * client.DefaultRenew) // fake time: the other one renews
		require.Equal(t, "claimed", string(read(t, c, f, 0, 10)))
	})
}

// An update that may have been executed before its session expired is not executed again.
func TestUnknownOutcome(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Timeout, cfg.Renew = 20*lease, 100*lease
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f := create(t, c, posix.Root, "f").Ino
		all := n.Processes(0, west)
		n.Fail(clienttest.Mute, all...)
		time.AfterFunc(3*lease, func() {
			n.Tick()
			n.Fail(clienttest.None, all...)
		})
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("x"), Append: true})
		require.Equal(t, posix.EIO, err)
		require.Equal(t, "x", string(read(t, c, f, 0, 10)), "it was executed, once")
		_, err = c.Write(t.Context(), root, client.Write{Ino: f, Data: []byte("y"), Append: true})
		require.NoError(t, err, "the next session works")
	})
}

// More updates at a time than a session may have under way.
func TestWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := n.Client(t, west)
		require.NoError(t, c.OpenPartition(t.Context(), 0))
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		const count = ask.MaxOutstanding + 50
		before := n.Ordered(0)
		var running sync.WaitGroup
		for i := range count {
			running.Go(func() {
				_, err := c.Mknod(t.Context(), root, at(posix.Root, fmt.Sprint(i)), posix.TypeRegular|0o600, 0)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		n.Fail(clienttest.None, all...)
		running.Wait()
		require.Equal(t, count, n.Ordered(0)-before)
	})
}

func TestClosedClientIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, err := client.New(n.Config(west))
		require.NoError(t, err)
		create(t, c, posix.Root, "f")
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		before := n.Ordered(0)
		time.Sleep(time.Hour) // fake time
		require.Equal(t, before, n.Ordered(0))
	})
}

// stingy calls replicas that refuse to hold more than a number of inodes for a session.
type stingy struct {
	client.Caller
	most atomic.Int64
}

func (s *stingy) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	q, err := ask.DecodeRequest(request)
	if err == nil && q.Kind == ask.RenewSession && int64(len(q.Held)) > s.most.Load() {
		return (&ask.Reply{Status: ask.Refused, Result: []byte("too many")}).Append(nil), nil
	}
	return s.Caller.Call(ctx, to, request)
}

// A client that holds more than a partition accepts keeps its session and all its open files. Other files can
// be opened again once enough are closed.
func TestRefusedRenewalKeepsTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		way := &stingy{Caller: cfg.Caller}
		way.most.Store(2)
		cfg.Caller = way
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		other, ctx := n.Client(t, east), t.Context()
		f := create(t, c, posix.Root, "f").Ino
		session := c.Snapshot().Partitions[0].Session.ID
		time.Sleep(2 * client.DefaultRenew) // fake time: f is accepted
		g, h := create(t, c, posix.Root, "g").Ino, create(t, c, posix.Root, "h").Ino
		late := create(t, other, posix.Root, "late").Ino
		for i, ino := range []posix.Ino{f, g, h} {
			write(t, c, ino, 0, []byte("still here"))
			require.NoError(t, other.Unlink(ctx, root, at(posix.Root, string("fgh"[i]))))
		}
		c.Observe(other.Proofs())
		time.Sleep(5 * lease) // fake time, with renewals that are refused
		n.Tick()
		require.Equal(t, session, c.Snapshot().Partitions[0].Session.ID)
		for _, ino := range []posix.Ino{f, g, h} {
			require.Equal(t, "still here", string(read(t, c, ino, 0, 100)))
		}
		_, err = c.Open(ctx, late)
		require.Equal(t, posix.ENFILE, err)
		_, err = c.Open(ctx, g)
		require.NoError(t, err, "it is open already")
		c.Release(g)
		c.Release(f)
		time.Sleep(2 * client.DefaultRenew) // fake time
		_, err = c.Open(ctx, late)
		require.NoError(t, err)
		_, err = c.GetAttr(ctx, f)
		require.Equal(t, posix.ESTALE, err, "it is reaped")
	})
}
