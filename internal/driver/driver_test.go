package driver

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// memoryLog keeps records, or fails.
type memoryLog struct {
	mu      sync.Mutex
	records int
	fails   error
	unsafe  error // of Sync
}

func (l *memoryLog) Append(records [][]byte, _ bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records += len(records)
	return l.fails
}

func (l *memoryLog) Sync() error { return l.unsafe }

func (*memoryLog) Synchronous() bool { return false }

// alone returns the driver of the only replica of a partition. wrap can replace its core.
func alone(t *testing.T, log Log, wrap func(order.Core) order.Core) *Driver {
	t.Helper()
	groups := []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1}}}
	local, err := primcast.New(primcast.Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	cross, err := primcast.New(primcast.Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	keys := kv.NewMemory()
	machine, err := meta.New(keys, meta.Config{})
	require.NoError(t, err)
	r, err := replica.New(replica.Config{Self: 1, Groups: groups, Incarnation: 1}, wrap(local), cross, keys, machine)
	require.NoError(t, err)
	network := transport.NewLocal(nil)
	t.Cleanup(func() { require.NoError(t, network.Close()) })
	links, err := network.Endpoint(1).Links(1)
	require.NoError(t, err)
	return New(1, r, links, log, NewSystemClock())
}

func same(c order.Core) order.Core { return c }

func open(session uint64) []byte {
	return (&ask.Request{Kind: ask.OpenSession, Session: session}).Append(nil)
}

func TestAnswersAndStops(t *testing.T) {
	log := &memoryLog{}
	d := alone(t, log, same)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	var asking sync.WaitGroup
	for s := range uint64(50) {
		asking.Go(func() {
			b, err := d.Handle(ctx, nil, open(s+1))
			if err != nil {
				t.Error(err)
				return
			}
			if reply, err := ask.DecodeReply(b); err != nil || reply.Status != ask.Answered {
				t.Errorf("reply %v: %v", reply, err)
			}
		})
	}
	asking.Wait()
	log.mu.Lock()
	require.Positive(t, log.records, "nothing is answered before it is recorded")
	log.mu.Unlock()
	cancel()
	require.NoError(t, <-ended)
	_, err := d.Handle(t.Context(), nil, open(99))
	require.ErrorIs(t, err, ErrStopped)
}

// A log that cannot be written stops the replica, and no answer leaves without its record.
func TestLogFails(t *testing.T) {
	full := errors.New("no space left on device")
	d := alone(t, &memoryLog{fails: full}, same)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	_, err := d.Handle(t.Context(), nil, open(1))
	require.ErrorIs(t, err, ErrStopped)
	require.ErrorIs(t, <-ended, full)
}

// durableCore asks for a sync of all its records.
type durableCore struct{ order.Core }

func (c durableCore) Step(in *multicast.Input, out *multicast.Output) {
	c.Core.Step(in, out)
	out.Sync = len(out.Records) > 0
}

// A required sync that fails stops the replica like a record that cannot be written. Without a request of the
// core the log is not synced.
func TestSyncFails(t *testing.T) {
	bad := errors.New("input/output error")
	d := alone(t, &memoryLog{unsafe: bad}, func(c order.Core) order.Core { return durableCore{c} })
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	_, err := d.Handle(t.Context(), nil, open(1))
	require.ErrorIs(t, err, ErrStopped)
	require.ErrorIs(t, <-ended, bad)
}

// persisting answers each request once the log is on disk, and not otherwise.
type persisting struct{ turn.Node }

func (n persisting) Step(in *turn.Input, out *turn.Output) {
	n.Node.Step(in, out)
	out.Replies = out.Replies[:0]
	for _, call := range in.Requests {
		out.Sync, out.Persisted = true, append(out.Persisted, turn.Call{Token: call.Token, Data: []byte("on disk")})
	}
}

// An answer that confirms a sync of the log comes after the sync, and never if the sync fails.
func TestPersistedAfterTheSync(t *testing.T) {
	d := alone(t, &memoryLog{}, same)
	d.node = persisting{d.node}
	ended := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { ended <- d.Run(ctx) }()
	answer, err := d.Handle(t.Context(), nil, open(1))
	require.NoError(t, err)
	require.Equal(t, "on disk", string(answer))
	end()
	require.NoError(t, <-ended)

	bad := errors.New("input/output error")
	d = alone(t, &memoryLog{unsafe: bad}, same)
	d.node = persisting{d.node}
	go func() { ended <- d.Run(t.Context()) }()
	_, err = d.Handle(t.Context(), nil, open(1))
	require.ErrorIs(t, err, ErrStopped)
	require.ErrorIs(t, <-ended, bad)
}

// brokenCore breaks an invariant with its first proposal.
type brokenCore struct{ order.Core }

func (c brokenCore) Step(in *multicast.Input, out *multicast.Output) {
	invariant.Check(len(in.Proposed) == 0, "evidence %d", len(in.Proposed))
	c.Core.Step(in, out)
}

func TestBrokenInvariantStopsTheReplicaWithItsEvidence(t *testing.T) {
	d := alone(t, &memoryLog{}, func(c order.Core) order.Core { return brokenCore{c} })
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	_, err := d.Handle(t.Context(), nil, open(1))
	require.ErrorIs(t, err, ErrStopped)
	err = <-ended
	var broken invariant.Violation
	require.ErrorAs(t, err, &broken)
	require.Equal(t, "evidence 1", broken.Evidence)
}

func TestPanicBetweenTurnsStopsTheReplica(t *testing.T) {
	d := alone(t, &memoryLog{}, same)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	require.ErrorIs(t, d.Between(t.Context(), func() { invariant.Check(false, "between turns") }), ErrStopped)
	var broken invariant.Violation
	require.ErrorAs(t, <-ended, &broken)
}

func TestHandleGivesUpWithItsContext(t *testing.T) {
	d := alone(t, &memoryLog{}, same) // not running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Handle(ctx, nil, open(1))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, d.waiting)
}

// longCore sends a frame that is too long for a link.
type longCore struct{ order.Core }

func (c longCore) Step(in *multicast.Input, out *multicast.Output) {
	c.Core.Step(in, out)
	out.Frames = append(out.Frames, multicast.Frame{Peer: 2, Data: make([]byte, transport.MaxFrame+1)})
}

// A frame that is too long costs its link a restart, and nothing else.
func TestTooLongFrameStopsNothing(t *testing.T) {
	d := alone(t, &memoryLog{}, func(c order.Core) order.Core { return longCore{c} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for s := range uint64(2) {
		_, err := d.Handle(ctx, nil, open(s+1))
		require.NoError(t, err)
	}
	cancel()
	require.NoError(t, <-ended)
}
