package client_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A single change is sent after some milliseconds. Continuous work needs far fewer commands than one for each
// few milliseconds, and other clients see it soon, too.
func TestWorkInAHeldDirectoryNeedsFewCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegating(t, n), n.Client(t, east)
		dir := makeDir(t, c, posix.Root, "d")
		seen := func(name string) time.Duration {
			began := time.Now()
			c.Release(create(t, c, dir.Ino, name).Ino)
			for _, err := other.Lookup(t.Context(), dir.Ino, name); err != nil; _, err = other.Lookup(t.Context(), dir.Ino, name) {
				time.Sleep(time.Millisecond) // fake time
				other.Observe(n.Client(t, west).Proofs())
				require.Less(t, time.Since(began), time.Second)
			}
			return time.Since(began)
		}
		require.LessOrEqual(t, seen("single"), 10*time.Millisecond)
		before, began := n.Ordered(0), time.Now()
		for i := range 1000 {
			c.Release(create(t, c, dir.Ino, fmt.Sprint(i)).Ino)
			time.Sleep(time.Millisecond) // fake time
		}
		took := time.Since(began)
		require.LessOrEqual(t, n.Ordered(0)-before, int(took/(10*time.Millisecond)))
		require.LessOrEqual(t, seen("last"), 30*time.Millisecond)
		for i := range 5 {
			time.Sleep(100 * time.Millisecond) // fake time
			require.NotZero(t, seen(fmt.Sprint("slow ", i)))
		}
		require.LessOrEqual(t, seen("single again"), 10*time.Millisecond)
	})
}

// lagging is a network with a delay of each call.
type lagging struct {
	*clienttest.Network
	delay atomic.Int64 // a time.Duration
}

// Call implements client.Caller.
func (l *lagging) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if err := pause.For(ctx, time.Duration(l.delay.Load())); err != nil {
		return nil, err
	}
	return l.Network.Call(ctx, to, request)
}

// Programs that sync at the same time share ordered commands, and none of them waits for more than two round
// trips. Far away, a sync beside another one waits for one round trip and some milliseconds.
func TestConcurrentSyncsShareCommands(t *testing.T) {
	for _, trip := range []time.Duration{3 * time.Millisecond, 200 * time.Millisecond} {
		inBubble(t, func(t *testing.T, n *clienttest.Network) {
			cfg, lag := n.Config(west), &lagging{Network: n}
			cfg.Delegate, cfg.CacheNames, cfg.Caller = true, true, lag
			c, err := client.New(cfg)
			require.NoError(t, err)
			defer c.Close()
			dir := makeDir(t, c, posix.Root, "d")
			sync1 := func(name string) time.Duration {
				create(t, c, dir.Ino, name)
				began := time.Now()
				require.NoError(t, c.Persist(t.Context(), dir.Ino))
				return time.Since(began)
			}
			sync1("first")
			lag.delay.Store(int64(trip))
			const programs, syncs = 8, 20
			before := n.Ordered(0)
			var longest [programs]time.Duration
			var all sync.WaitGroup
			for p := range programs {
				all.Go(func() {
					for i := range syncs {
						time.Sleep(time.Duration(37*p+11*i) * time.Microsecond) // fake time: they drift
						longest[p] = max(longest[p], sync1(fmt.Sprint(p, "-", i)))
					}
				})
			}
			all.Wait()
			require.LessOrEqual(t, slices.Max(longest[:]), 2*trip)
			if trip < shareDelay {
				require.Less(t, n.Ordered(0)-before, programs*syncs/3)
			}
			all.Go(func() { require.Equal(t, trip, sync1("one")) })
			time.Sleep(time.Millisecond) // fake time
			require.LessOrEqual(t, sync1("beside it"), trip+shareDelay)
			all.Wait()
			n.Check(t)
		})
	}
}

// shareDelay is the constant of the client.
const shareDelay = 5 * time.Millisecond
