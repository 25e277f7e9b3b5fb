package client_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Updates and linearizable reads that the permissions refuse do not recall a directory: a machine without a
// right there cannot slow its holder. An update that they allow does.
func TestRefusedChangesRecallNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := delegating(t, n), t.Context()
		cfg := n.Config(west)
		cfg.Caller, cfg.Linearizable = n.Bound(laptop()), true
		strict, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, strict.Close()) }()
		causal := bound(t, n, laptop(), west)
		dir := makeDir(t, c, local(n, 1), "held")
		elsewhere := makeDir(t, n.Client(t, west), local(n, 2), "elsewhere")
		f := create(t, c, dir.Ino, "f")
		_, err = c.SetAttr(ctx, root, elsewhere.Ino, meta.SetUID, posix.Attr{UID: alice.UID})
		require.NoError(t, err)
		require.NoError(t, c.Persist(ctx, dir.Ino))
		for _, b := range []*client.Client{causal, strict} {
			b.Observe(c.Proofs())
			found, err := b.Lookup(ctx, local(n, 1), "held")
			require.NoError(t, err)
			require.Equal(t, dir.Ino, found.Ino)
			_, err = b.Lookup(ctx, local(n, 2), "elsewhere")
			require.NoError(t, err)
		}
		_, err = causal.Lookup(ctx, dir.Ino, "f")
		require.NoError(t, err)
		_, err = c.SetAttr(ctx, root, dir.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeDir | 0o700})
		require.NoError(t, err)
		require.NoError(t, c.Persist(ctx, dir.Ino))
		time.Sleep(time.Minute) // fake time: the look-ups have recalled the directory
		for i := range 10 {
			create(t, c, dir.Ino, fmt.Sprint("held anew ", i))
		}
		before := c.Holding().Recalls

		for _, change := range []func() error{
			func() error {
				_, err := causal.Create(ctx, alice, at(dir.Ino, "new"), 0o644, meta.Exclusive)
				return err
			},
			func() error { return causal.Unlink(ctx, alice, at(dir.Ino, "f")) },
			func() error { return causal.Rename(ctx, alice, at(dir.Ino, "f"), at(dir.Ino, "g"), 0) },
			func() error { return causal.Rename(ctx, alice, at(dir.Ino, "f"), at(elsewhere.Ino, "g"), 0) },
			func() error { _, err := causal.Link(ctx, alice, f.Ino, at(dir.Ino, "g")); return err },
			func() error { return causal.SetXattr(ctx, alice, f.Ino, "user.a", []byte("1"), 0) },
			func() error {
				_, err := causal.SetAttr(ctx, alice, f.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeRegular | 0o777})
				return err
			},
			func() error { _, _, err := strict.ReadDir(ctx, dir.Ino, 0, 10); return err },
		} {
			err := change()
			require.Contains(t, []error{posix.EACCES, posix.EPERM}, err)
			create(t, c, dir.Ino, "other")
			require.NoError(t, c.Unlink(ctx, root, at(dir.Ino, "other")))
			require.Equal(t, before, c.Holding().Recalls)
		}

		_, err = c.SetAttr(ctx, root, dir.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeDir | 0o777})
		require.NoError(t, err)
		require.NoError(t, c.Persist(ctx, dir.Ino))
		_, err = causal.Create(ctx, alice, at(dir.Ino, "new"), 0o644, meta.Exclusive)
		require.NoError(t, err)
		require.Equal(t, before+1, c.Holding().Recalls)
	})
}

// A bound client that may look at a directory, and may change its own file there, recalls the directory a few
// times, however often it tries. The holder goes on with its log.
func TestABoundClientRecallsSeldom(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := delegating(t, n), t.Context()
		cfg := n.Config(west)
		cfg.Caller, cfg.Linearizable = n.Bound(laptop()), true
		strict, err := client.New(cfg)
		require.NoError(t, err)
		causal := bound(t, n, laptop(), west)
		dir := makeDir(t, c, local(n, 1), "held")
		_, err = c.SetAttr(ctx, root, dir.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeDir | posix.Sticky | 0o777})
		require.NoError(t, err)
		require.NoError(t, c.Persist(ctx, dir.Ino))
		_, err = strict.Lookup(ctx, local(n, 1), "held")
		require.NoError(t, err)
		_, err = causal.Lookup(ctx, local(n, 1), "held")
		require.NoError(t, err)
		own, err := causal.Create(ctx, alice, at(dir.Ino, "own"), 0o644, meta.Exclusive)
		require.NoError(t, err)

		const during, every = 30 * time.Second, 5 * time.Millisecond
		life, stop := context.WithCancel(ctx)
		var attacks sync.WaitGroup
		var reads, changes atomic.Int64
		for range 4 {
			attacks.Go(func() {
				for pause.For(life, every) == nil {
					if _, err := strict.GetAttr(life, dir.Ino); err == nil {
						reads.Add(1)
					}
				}
			})
			attacks.Go(func() {
				for pause.For(life, every) == nil {
					if _, err := causal.SetAttr(life, alice, own.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeRegular | 0o600}); err == nil {
						changes.Add(1)
					}
				}
			})
		}
		before, updates := c.Holding(), 0
		for end := time.Now().Add(during); time.Now().Before(end); updates += 2 {
			create(t, c, dir.Ino, "f")
			require.NoError(t, c.Unlink(ctx, root, at(dir.Ino, "f")))
			require.NoError(t, pause.For(ctx, every))
		}
		after := c.Holding()
		stop()
		attacks.Wait()
		require.NoError(t, strict.Close())
		// Each of three replicas gives four recalls at once, and one each second.
		recalls := after.Recalls - before.Recalls
		t.Logf("%d updates, %d in the log, %d recalls, %d reads and %d changes of the other", updates, after.Logged-before.Logged, recalls, reads.Load(), changes.Load())
		require.Less(t, recalls, uint64(3*(4+during/time.Second)))
		require.Greater(t, after.Logged-before.Logged, uint64(updates*8/10))
		require.Positive(t, reads.Load(), "they wait, and are not refused")
		require.Positive(t, changes.Load())
	})
}
