package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// late is a client.Caller that sends batches in their order, as a connection does, or delays every third one:
// then others overtake it.
type late struct {
	client.Caller
	overtaking         bool
	batches, most, now atomic.Int64
}

func (l *late) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	q, err := ask.DecodeRequest(request)
	if err != nil || q.Kind != ask.Update || meta.Op(q.Command[0]) != meta.OpBatch {
		return l.Caller.Call(ctx, to, request)
	}
	defer l.now.Add(-1)
	l.most.Store(max(l.most.Load(), l.now.Add(1)))
	c, err := meta.DecodeCommand(q.Command)
	if err != nil {
		return nil, err
	}
	x, err := delegation.DecodeBatch(c.Data)
	switch {
	case err != nil:
		return nil, err
	case !l.overtaking:
		time.Sleep(time.Duration(x.First) * time.Microsecond) // fake time
	case l.batches.Add(1)%3 == 0:
		time.Sleep(time.Millisecond)
	}
	return l.Caller.Call(ctx, to, request)
}

// Many small files in a far region need few round trips: several batches are under way. They are executed in
// their order, also if they arrive in another one.
func TestChangesFarAway(t *testing.T) {
	for _, overtaking := range []bool{false, true} {
		inBubble(t, func(t *testing.T, n *clienttest.Network) {
			calls := &late{Caller: newDistant(n, west), overtaking: overtaking}
			cfg := n.Config(west)
			cfg.Delegate, cfg.CacheNames, cfg.Caller = true, true, calls
			c, err := client.New(cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			start := time.Now()
			dir := makeDir(t, c, local(n, 2), "d")
			const files = 1000
			for i := range files {
				a := create(t, c, dir.Ino, fmt.Sprint(i))
				write(t, c, a.Ino, 0, make([]byte, 1000))
				c.Release(a.Ino)
			}
			require.NoError(t, c.Persist(t.Context(), dir.Ino))
			trips := float64(time.Since(start)) / float64(round)
			t.Logf("overtaking %t: %.1f round trips", overtaking, trips)
			require.Greater(t, calls.most.Load(), int64(1))
			if !overtaking {
				require.LessOrEqual(t, trips, 10.0)
			}
			require.Zero(t, c.Holding().Lost)
			other := n.Client(t, east)
			require.NoError(t, other.Wait(t.Context(), c.Token()))
			entries, _, err := other.ReadDir(t.Context(), dir.Ino, 0, 2*files)
			require.NoError(t, err)
			require.Len(t, entries, files)
			for i := range entries {
				require.EqualValues(t, 1000, entries[i].Attr.Size)
			}
			require.NoError(t, c.GiveBack(t.Context()))
			n.Check(t)
		})
	}
}

// While a caller waits for the log, the changes that others append are sent together with the next batch, and
// not each one at once.
func TestOnlyWhatIsWaitedForIsSentAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *clienttest.Network) {
		c := delegatingFar(t, n)
		dir := makeDir(t, c, local(n, 2), "d")
		create(t, c, dir.Ino, "f")
		before, done := n.Ordered(2), make(chan error)
		go func() { done <- c.Persist(t.Context(), dir.Ino) }()
		for i := range 50 {
			time.Sleep(time.Millisecond) // fake time
			create(t, c, dir.Ino, fmt.Sprint(i))
		}
		require.NoError(t, <-done)
		require.NoError(t, c.Persist(t.Context(), dir.Ino))
		require.EqualValues(t, 2, n.Ordered(2)-before)
		require.NoError(t, c.GiveBack(t.Context()))
		n.Check(t)
	})
}
