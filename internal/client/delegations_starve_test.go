package client_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// delegatingFar is delegating in a wide-area network.
func delegatingFar(t *testing.T, n *clienttest.Network) *client.Client {
	t.Helper()
	cfg := n.Config(west)
	cfg.Delegate, cfg.CacheNames, cfg.Caller = true, true, newDistant(n, west)
	c, err := client.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A client works all the time in held directories of two far partitions. Its changes in other directories,
// also of files in returned directories, and its queries wait for the operations that were in the logs
// before, and not for later operations.
func TestChangesElsewhereDoNotStarve(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c, other := delegatingFar(t, n), n.Client(t, east)
		const places = 4
		var near, far [places]posix.Attr
		for i := range places { // more changes in one directory would make the client hold it
			near[i] = makeDir(t, other, local(n, 1), fmt.Sprint("near", i))
			far[i] = makeDir(t, other, local(n, 2), fmt.Sprint("far", i))
		}
		shared := makeDir(t, other, local(n, 1), "shared")
		c.Observe(other.Proofs())
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		failed := make(chan error, 4)
		for _, partition := range []uint16{0, 2} {
			for worker := range 2 {
				dir := makeDir(t, c, local(n, partition), fmt.Sprint("held", worker))
				working.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						_, err := c.Create(ctx, root, at(dir.Ino, fmt.Sprint(i)), 0o644, meta.Exclusive)
						if err != nil && ctx.Err() == nil {
							failed <- err
							return
						}
						time.Sleep(time.Millisecond) // fake time
					}
				})
			}
		}
		working.Go(func() { // asks for the directory, and loses it again
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = c.Create(ctx, root, at(shared.Ino, fmt.Sprint("own", i)), 0o644, meta.Exclusive)
				if i%20 == 0 {
					_, _ = other.Create(ctx, root, at(shared.Ino, fmt.Sprint("other", i)), 0o644, meta.Exclusive)
				}
			}
		})
		time.Sleep(5 * time.Second) // fake time: the logs are full of work
		took := func(what string, trips int, f func() error) {
			start := time.Now()
			require.NoError(t, f(), what)
			require.LessOrEqual(t, time.Since(start), time.Duration(trips)*round, what)
		}
		for i := range places {
			for _, dir := range []posix.Ino{near[i].Ino, far[i].Ino} {
				took("change", 8, func() error {
					_, err := c.Create(t.Context(), root, at(dir, "f"), 0o644, meta.Exclusive)
					return err
				})
				took("query", 2, func() error {
					_, _, err := c.ReadDir(t.Context(), dir, 0, 10)
					return err
				})
			}
			took("change of several partitions", 12, func() error {
				return c.Rename(t.Context(), root, at(near[i].Ino, "f"), at(far[i].Ino, "g"), 0)
			})
		}
		stop()
		working.Wait()
		require.Empty(t, failed)
		require.NoError(t, c.GiveBack(t.Context()))
		require.Zero(t, c.Holding().Lost)
		n.Check(t)
	})
}

// slow is a client.Caller whose answers to look-ups take long.
type slow struct {
	client.Caller
	asked atomic.Int64
}

func (s *slow) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	answer, err := s.Caller.Call(ctx, to, request)
	if q, bad := ask.DecodeRequest(request); bad == nil && q.Kind == ask.Query && meta.Op(q.Command[0]) == meta.OpLookup {
		s.asked.Add(1)
		time.Sleep(time.Second) // fake time
	}
	return answer, err
}

// A directory is returned while the answer to a look-up is on its way, which does not have the last changes
// there: the client asks once more.
func TestAnAnswerFromBeforeTheReturn(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		cfg := n.Config(west)
		calls := &slow{Caller: cfg.Caller}
		cfg.Delegate, cfg.Caller = true, calls
		c, err := client.New(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		dir := makeDir(t, c, posix.Root, "d")
		makeDir(t, c, posix.Root, "kept") // the log goes on
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		other := n.Client(t, west)
		makeDir(t, c, dir.Ino, "sub")
		want, err := c.GetAttr(t.Context(), dir.Ino)
		require.NoError(t, err)
		calls.asked.Store(0)
		found := make(chan posix.Attr)
		go func() {
			a, err := c.Lookup(t.Context(), posix.Root, "d")
			if err != nil {
				t.Error(err)
			}
			found <- a
		}()
		time.Sleep(time.Millisecond) // fake time: the replica has answered, and the change is not sent
		require.NoError(t, other.SetXattr(t.Context(), root, dir.Ino, "user.a", []byte("1"), 0))
		require.EqualValues(t, 1, c.Holding().Recalls)
		require.EqualValues(t, 1, calls.asked.Load())
		got := <-found
		got.Ctime = want.Ctime
		require.Equal(t, want, got)
		require.EqualValues(t, 2, calls.asked.Load())
	})
}
