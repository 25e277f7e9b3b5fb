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

		var reads, changes atomic.Int64
		var attacks []func(life context.Context)
		for range 4 {
			attacks = append(attacks, func(life context.Context) {
				if _, err := strict.GetAttr(life, dir.Ino); err == nil {
					reads.Add(1)
				}
			}, func(life context.Context) {
				if _, err := causal.SetAttr(life, alice, own.Ino, meta.SetMode, posix.Attr{Mode: posix.TypeRegular | 0o600}); err == nil {
					changes.Add(1)
				}
			})
		}
		recalls := worksUnderAttack(t, c, dir.Ino, attacks)
		require.NoError(t, strict.Close())
		require.LessOrEqual(t, recalls, uint64(1+attackedFor/time.Second), "one a second by all replicas together")
		require.Positive(t, reads.Load(), "they wait, and are not refused")
		require.Positive(t, changes.Load())
	})
}

// attackedFor is the time of an attack, in fake time.
const attackedFor = 30 * time.Second

// worksUnderAttack works in a directory that c holds, while others repeat attacks. Its work must go on in the
// log. It returns the number of recalls.
func worksUnderAttack(t *testing.T, c *client.Client, dir posix.Ino, attacks []func(life context.Context)) (recalls uint64) {
	const every = 5 * time.Millisecond
	life, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, attack := range attacks {
		running.Go(func() {
			for pause.For(life, every) == nil {
				attack(life)
			}
		})
	}
	before, updates := c.Holding(), 0
	for end := time.Now().Add(attackedFor); time.Now().Before(end); updates += 2 {
		create(t, c, dir, "f")
		require.NoError(t, c.Unlink(t.Context(), root, at(dir, "f")))
		require.NoError(t, pause.For(t.Context(), every))
	}
	after := c.Holding()
	stop()
	running.Wait()
	recalls = after.Recalls - before.Recalls
	t.Logf("%d updates, %d in the log, %d recalls", updates, after.Logged-before.Logged, recalls)
	require.Greater(t, after.Logged-before.Logged, uint64(updates*95/100))
	return recalls
}

// The same for commands of several partitions: the client moves its file into the directory and out of it,
// and asks a replica of the other partition.
func TestABoundClientRecallsSeldomFromElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, ctx := delegating(t, n), t.Context()
		dir := makeDir(t, c, local(n, 1), "held")
		elsewhere := makeDir(t, n.Client(t, west), local(n, 2), "elsewhere")
		for _, d := range []posix.Ino{dir.Ino, elsewhere.Ino} {
			_, err := c.SetAttr(ctx, root, d, meta.SetMode, posix.Attr{Mode: posix.TypeDir | posix.Sticky | 0o777})
			require.NoError(t, err)
		}
		require.NoError(t, c.Persist(ctx, dir.Ino))
		var moves atomic.Int64
		var attacks []func(life context.Context)
		for i := range 4 {
			b, name := bound(t, n, laptop(), west), fmt.Sprint("own ", i)
			b.Observe(c.Proofs())
			for _, known := range []struct {
				dir  posix.Ino
				name string
			}{{local(n, 1), "held"}, {local(n, 2), "elsewhere"}} {
				_, err := b.Lookup(ctx, known.dir, known.name)
				require.NoError(t, err)
			}
			_, err := b.Create(ctx, alice, at(elsewhere.Ino, name), 0o644, meta.Exclusive)
			require.NoError(t, err)
			from, to := elsewhere.Ino, dir.Ino
			attacks = append(attacks, func(life context.Context) {
				if err := b.Rename(life, alice, at(from, name), at(to, name), 0); err == nil {
					from, to = to, from
					moves.Add(1)
				}
			})
		}
		recalls := worksUnderAttack(t, c, dir.Ino, attacks)
		t.Logf("%d moves", moves.Load())
		require.LessOrEqual(t, recalls, uint64(1+attackedFor/time.Second))
		require.Positive(t, moves.Load(), "they wait, and are not refused")
	})
}
