package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// cutCaller is the network of one client, which can be cut.
type cutCaller struct {
	client.Caller
	cut atomic.Bool
}

func (c *cutCaller) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if c.cut.Load() {
		return nil, transport.ErrUnreachable
	}
	answer, err := c.Caller.Call(ctx, to, request)
	if c.cut.Load() {
		return nil, transport.ErrUnreachable
	}
	return answer, err
}

// A client is cut off while another one changes a directory that it holds. Within the lease of its session it
// loses nothing, and the change waits for it. Later the change goes on without it.
func TestASilentHolder(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration
		lost   bool
	}{"within its lease": {lease * 2 / 3, false}, "for longer": {4 * lease, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *clienttest.Network) {
				cfg := n.Config(west)
				net := &cutCaller{Caller: cfg.Caller}
				cfg.Caller, cfg.Delegate, cfg.CacheNames, cfg.Hard = net, true, true, true
				holder, err := client.New(cfg)
				require.NoError(t, err)
				cfg = n.Config(west)
				cfg.Hard = true
				other, err := client.New(cfg)
				require.NoError(t, err)
				dir := makeDir(t, holder, local(n, 1), "d")
				require.NoError(t, holder.Persist(t.Context(), dir.Ino))
				other.Observe(holder.Proofs())
				net.cut.Store(true)
				create(t, holder, dir.Ino, "mine")

				began, took := time.Now(), make(chan time.Duration)
				go func() {
					_, err := other.Create(t.Context(), root, at(dir.Ino, "theirs"), 0o644, meta.Exclusive)
					if err != nil {
						t.Error(err)
					}
					took <- time.Since(began)
				}()
				time.Sleep(c.silent) // fake time
				net.cut.Store(false)
				waited := <-took
				names := []string{"mine", "theirs"}
				if c.lost {
					names = names[1:]
					require.Less(t, waited, 2*lease)
				} else {
					require.GreaterOrEqual(t, waited, c.silent)
				}
				require.Equal(t, names, listNames(t, other, dir.Ino))
				require.NoError(t, other.Close())
				_ = holder.GiveBack(t.Context())
				require.Equal(t, c.lost, holder.Holding().Lost > 0)
				_ = holder.Close() // it tells the loss
			})
		})
	}
}
