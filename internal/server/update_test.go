package server

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// silent is a node that answers only status requests, and links without messages.
type silent struct{ status ask.Status }

func (s *silent) Step(in *turn.Input, out *turn.Output) {
	for _, call := range in.Requests {
		reply := ask.Reply{Result: s.status.Append(nil)}
		out.Replies = append(out.Replies, turn.Call{Token: call.Token, Data: reply.Append(nil)})
	}
}
func (*silent) Apply(*turn.Output) ([]turn.Call, error) { return nil, nil }
func (*silent) Wake() time.Duration                     { return 0 }
func (*silent) Append([][]byte, bool) error             { return nil }
func (*silent) Sync() error                             { return nil }
func (*silent) Syncs(*turn.Output) bool                 { return false }
func (*silent) Synchronous() bool                       { return false }

type noLinks struct{ transport.Links }

func (noLinks) Take(into []multicast.Frame, _ int) []multicast.Frame { return into }
func (noLinks) Notify(func(bool))                                    {}
func (noLinks) Flush()                                               {}
func (noLinks) Accept(multicast.ProcessID)                           {}
func (noLinks) Close() error                                         { return nil }

// hosting returns a server with replicas of partitions 0 and 1. Their drivers run until ctx ends.
func hosting(ctx context.Context, running *sync.WaitGroup) *Server {
	s := &Server{cfg: Config{Logger: slog.New(slog.DiscardHandler)}, replicas: map[uint16]*residence{}}
	for p := range uint16(2) {
		node := &silent{status: ask.Status{Partition: p}}
		h := &hosted{partition: p, driver: driver.New(multicast.ProcessID(p+1), node, noLinks{}, node, driver.NewSystemClock())}
		r := &residence{done: make(chan struct{})}
		r.hosted.Store(h)
		s.replicas[p] = r
		running.Go(func() { _ = h.driver.Run(ctx) }) // it ends with ctx
	}
	return s
}

// A replica that is taking over the state of another one does not answer. Only this replica is missing in the
// status.
func TestReplicasAreAskedAtOnce(t *testing.T) {
	for busy := range uint16(2) {
		bubble.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			s := hosting(ctx, &running)
			require.Len(t, s.Replicas(ctx), 2)
			go func() {
				_ = s.replicas[busy].hosted.Load().driver.Between(ctx, func() { <-ctx.Done() })
			}()
			synctest.Wait()
			bounded, cancel := context.WithTimeout(ctx, time.Second)
			replicas := s.Replicas(bounded)
			cancel()
			require.Len(t, replicas, 1)
			require.Equal(t, 1-busy, replicas[0].Partition)
			stop()
			running.Wait()
		})
	}
}

// A failed replica does not prevent its server from applying a change: the replica learns of replacements
// when it restarts.
func TestUpdateWithAFailedReplica(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		spec := topology.Spec{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2}
		plan, err := spec.Plan()
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		s := hosting(ctx, &running)
		stop()
		running.Wait()
		spec.Replace(plan, plan.Partitions[1].Replicas[2].Process, "")
		next, err := spec.Plan()
		require.NoError(t, err)
		failed := s.replicas[1]
		require.ErrorIs(t, s.tellReplaced(t.Context(), failed, next), driver.ErrStopped)
		close(failed.done)
		require.NoError(t, s.tellReplaced(t.Context(), failed, next))
		require.Empty(t, s.Replicas(t.Context()))
	})
}

// retiring is a node that has learned that it is no longer a member.
type retiring struct{ silent }

func (*retiring) Step(_ *turn.Input, out *turn.Output) { out.Retired = true }

// A replica that has left its group does not restart, and its server logs its directory and that no action is
// needed.
func TestRetiredReplicaStops(t *testing.T) {
	var logged strings.Builder
	s := &Server{cfg: Config{Name: "westa", Logger: slog.New(slog.NewTextHandler(&logged, nil))}}
	node := &retiring{}
	r := &residence{done: make(chan struct{})}
	r.hosted.Store(&hosted{partition: 3, process: 7, driver: driver.New(7, node, noLinks{}, node, driver.NewSystemClock())})
	require.NoError(t, s.run(t.Context(), r))
	require.Contains(t, logged.String(), "a replica here was replaced and has stopped")
	require.Contains(t, logged.String(), "server=westa partition=3 process=7")
	_, err := r.hosted.Load().driver.Handle(t.Context(), nil, nil)
	require.ErrorIs(t, err, driver.ErrStopped)
}
