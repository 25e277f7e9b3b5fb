package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// After every kind of own change, by any caller, the cached attributes of directories and files equal
// those of a query, and a change by another client is visible once this client has seen it.
func TestCachedAttributes(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, calls := caching(t, n, false)
		other, ctx := n.Client(t, west), t.Context()
		cred := posix.Cred{}
		var dirs []posix.Ino
		for i := range 2 {
			d, err := c.Mkdir(ctx, cred, at(posix.Root, fmt.Sprint("d", i)), 0o755)
			require.NoError(t, err)
			dirs = append(dirs, d.Ino)
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		known := 0
		for range 300 {
			var callers sync.WaitGroup
			for range 1 + r.IntN(3) {
				from, to := at(dirs[r.IntN(2)], fmt.Sprint(r.IntN(9))), at(dirs[r.IntN(2)], fmt.Sprint(r.IntN(9)))
				kind, by := r.IntN(12), c
				if r.IntN(8) == 0 {
					by = other
				}
				callers.Go(func() { changeSomething(ctx, by, kind, from, to) })
			}
			callers.Wait()
			c.Observe(other.Proofs())
			inos := slices.Clone(dirs)
			for _, dir := range dirs {
				for i := range 9 {
					if a, err := c.Lookup(ctx, dir, fmt.Sprint(i)); err == nil {
						inos = append(inos, a.Ino)
					}
				}
			}
			other.Observe(c.Proofs())
			for _, ino := range inos {
				before := calls.queries.Load()
				cached, err := c.GetAttr(ctx, ino)
				require.NoError(t, err)
				if calls.queries.Load() == before {
					known++
				}
				now, err := other.GetAttr(ctx, ino)
				require.NoError(t, err)
				require.Equal(t, now, cached)
			}
			time.Sleep(time.Millisecond)
		}
		require.Greater(t, known, 1000)
	})
}

// changeSomething makes one of twelve changes.
func changeSomething(ctx context.Context, c *client.Client, kind int, from, to client.Name) {
	cred := posix.Cred{}
	switch kind {
	case 0, 1:
		_ = c.Rename(ctx, cred, from, to, []uint32{0, meta.RenameExchange}[kind])
	case 2:
		if a, err := c.Lookup(ctx, from.Dir, from.Name); err == nil {
			_, _ = c.Link(ctx, cred, a.Ino, to)
		}
	case 3:
		_, _ = c.SetAttr(ctx, cred, from.Dir, meta.SetMode, posix.Attr{Mode: 0o700})
	case 4:
		_ = c.SetXattr(ctx, cred, from.Dir, "user.x", []byte("y"), 0)
	case 5:
		_ = c.Unlink(ctx, cred, from)
	case 6:
		_, _ = c.Mkdir(ctx, cred, from, 0o755)
	case 7:
		_ = c.Rmdir(ctx, cred, from)
	case 8:
		if a, err := c.Lookup(ctx, from.Dir, from.Name); err == nil && a.Mode.IsRegular() {
			_, _ = c.Write(ctx, cred, client.Write{Ino: a.Ino, Data: []byte("text"), Append: true})
		}
	default:
		if a, err := c.Create(ctx, cred, from, 0o644, meta.Exclusive); err == nil {
			c.Release(a.Ino)
		}
	}
}

// The next client continues the stream of changes that others rely on, and reports the changes since.
func TestStreamsContinue(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	file := create(t, c, posix.Root, "f")
	other := n.Client(t, "us-west-2")
	isAbsent(t, c, posix.Root, "x")
	awaitCached(t, c, calls, posix.Root, "x")
	require.Eventually(t, func() bool {
		a, err := c.GetAttr(t.Context(), file.Ino)
		require.NoError(t, err)
		return c.Covers(&a, time.Minute) == client.Covered
	}, patience, time.Millisecond)
	old := file
	old.Size++
	require.Equal(t, client.Outdated, c.Covers(&old, time.Minute), "these are not the last attributes")
	state := c.Suspend()
	require.Len(t, state.Streams, 1)
	b, err := json.Marshal(state)
	require.NoError(t, err)
	other.Observe(c.Proofs())
	write(t, other, file.Ino, 0, []byte("text"))

	cfg := n.Config("us-west-2")
	cfg.CacheNames = true
	cfg.Resume, err = client.DecodeState(b)
	require.NoError(t, err)
	next, err := client.New(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, next.Close()) }()
	notified := make(chan posix.Ino, 100)
	next.OnChange(func(x meta.Change) {
		require.NotZero(t, x.Kind, "nothing was missed")
		if x.Kind == meta.ChangedAttr {
			notified <- x.Ino
		}
	})
	select {
	case ino := <-notified:
		require.Equal(t, file.Ino, ino)
	case <-time.After(patience):
		t.Fatal("the change was not reported")
	}
	next.Observe(other.Proofs())
	require.True(t, next.CatchUp(t.Context(), patience))
}

// A client that must know the changes up to a place gets them at once, also if it asks between two requests
// of its watcher.
func TestCatchUpBetweenRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, _ := caching(t, n, false)
		other := n.Client(t, west)
		file := create(t, c, posix.Root, "f")
		require.Eventually(t, func() bool {
			a, err := c.GetAttr(t.Context(), file.Ino)
			require.NoError(t, err)
			return c.Covers(&a, time.Hour) == client.Covered
		}, patience, time.Millisecond)
		for i := range 100 {
			require.NoError(t, other.Lock(t.Context(), exclusive(file.Ino)))
			require.NoError(t, other.Lock(t.Context(), unlocked(exclusive(file.Ino))))
			c.Observe(other.Proofs())
			time.Sleep(time.Duration(i%20) * 100 * time.Microsecond) // fake time
			before := time.Now()
			require.True(t, c.CatchUp(t.Context(), patience))
			require.Less(t, time.Since(before), 10*time.Millisecond)
		}
	})
}

// When the stream of changes is cut, the client reports that anything may change.
func TestACutIsReported(t *testing.T) {
	n := clienttest.New(t, spec, time.Minute)
	c, calls := caching(t, n, false)
	cut := make(chan struct{}, 1)
	c.OnChange(func(x meta.Change) {
		if x.Kind == 0 {
			select {
			case cut <- struct{}{}:
			default:
			}
		}
	})
	isAbsent(t, c, posix.Root, "x")
	awaitCached(t, c, calls, posix.Root, "x")
	require.Empty(t, cut)
	for _, r := range n.Plan.Partitions[0].Replicas {
		n.Fail(clienttest.Down, r.Process)
	}
	select {
	case <-cut:
	case <-time.After(patience):
		t.Fatal("the cut was not reported")
	}
}
