package client_test

import (
	"context"

	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
)

// hardClient returns a client that waits, with a session that outlives the test.
func hardClient(t *testing.T, n *clienttest.Network) *client.Client {
	cfg := n.Config(west)
	cfg.Hard = true
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Operations of a hard client are served when the replicas are back, however long that took; open files and
// locks are still there if it was shorter than the lease.
func TestHardClientWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := hardClient(t, n)
		f := create(t, c, posix.Root, "f").Ino
		require.NoError(t, c.Lock(t.Context(), exclusive(f)))
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		const away = 3 * lease / 4
		time.AfterFunc(away, func() { n.Fail(clienttest.None, all...) })
		start := time.Now()
		read := make(chan error, 1)
		go func() {
			_, err := c.GetAttr(t.Context(), f)
			read <- err
		}()
		write(t, c, f, 0, []byte("waited"))
		require.NoError(t, <-read)
		require.GreaterOrEqual(t, time.Since(start), away)
		require.Equal(t, posix.EAGAIN, n.Client(t, east).Lock(t.Context(), exclusive(f)), "it still has its lock")
	})
}

func TestHardClientOutlastsTheTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := hardClient(t, n)
		f := create(t, c, posix.Root, "f").Ino
		all := n.Processes(0, west)
		n.Fail(clienttest.Silent, all...)
		time.AfterFunc(10*client.DefaultTimeout, func() { n.Fail(clienttest.None, all...) })
		start := time.Now()
		_, err := c.GetAttr(t.Context(), f)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 10*client.DefaultTimeout)
	})
}

// An operation that is abandoned ends: at once if it sent nothing or only reads, otherwise after the timeout.
func TestHardClientGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := hardClient(t, n)
		f := create(t, c, posix.Root, "f").Ino
		n.Fail(clienttest.Mute, n.Processes(0, west)...)
		const patience = time.Minute
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
		defer cancel()
		giveUp, stop := context.WithCancel(t.Context())
		time.AfterFunc(patience, stop)
		start := time.Now()
		_, err := c.GetAttr(giveUp, f)
		require.Equal(t, posix.EINTR, err)
		require.Equal(t, patience, time.Since(start))

		giveUp, stop = context.WithCancel(t.Context())
		time.AfterFunc(patience, stop)
		start = time.Now()
		require.Equal(t, posix.ETIMEDOUT, c.Lock(giveUp, exclusive(f)), "it was sent, and may be executed")
		require.Equal(t, patience+client.DefaultTimeout, time.Since(start))

		abandoned, abandon := context.WithCancelCause(ctx)
		time.AfterFunc(patience, func() { abandon(client.ErrAbandoned) })
		start = time.Now()
		require.Equal(t, posix.ETIMEDOUT, c.Lock(abandoned, exclusive(f)))
		require.Equal(t, patience, time.Since(start), "nobody waits")
		n.Fail(clienttest.None, n.Processes(0, west)...)
	})
}

// Blocks are stored when the storage servers are back.
func TestHardClientWaitsForStorage(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		cfg.Hard = true
		stores := cfg.Blocks
		away := &unavailable{Store: stores(0), until: time.Now().Add(10 * time.Minute)}
		cfg.Blocks = away.of
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer c.Close()
		f := create(t, c, posix.Root, "f").Ino
		big := make([]byte, 1<<20)
		write(t, c, f, 0, big)
		require.Equal(t, big, read(t, c, f, 0, len(big)))
		require.Greater(t, away.refused, 10)
		require.False(t, time.Now().Before(away.until))
	})
}

// unavailable is a store that cannot be reached for a while.
type unavailable struct {
	block.Store
	until   time.Time
	refused int
}

func (u *unavailable) of(uint16) block.Store { return u }

func (u *unavailable) Put(ctx context.Context, b block.Block) error {
	if time.Now().Before(u.until) {
		u.refused++
		return block.ErrUnavailable
	}
	return u.Store.Put(ctx, b)
}
