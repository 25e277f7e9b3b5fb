package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// diary is a node, its log and its links. It records the order of all calls.
type diary struct {
	transport.Links
	mu      sync.Mutex
	entries []string
	refuses error // of frames that leave early
}

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, what)
}

// Step answers a request, and has early and late frames for process 2.
func (d *diary) Step(in *turn.Input, out *turn.Output) {
	if len(in.Requests) == 0 {
		return
	}
	out.Records = [][]byte{{1}}
	out.Early = []multicast.Frame{{Peer: 2, Data: []byte("early")}}
	out.Frames = []multicast.Frame{{Peer: 2, Data: []byte("late")}}
	out.Persisted = []turn.Call{{Token: in.Requests[0].Token}}
	out.Sync = true
}

func (*diary) Syncs(*turn.Output) bool                 { return false }
func (*diary) Apply(*turn.Output) ([]turn.Call, error) { return nil, nil }
func (*diary) Wake() time.Duration                     { return 0 }

func (d *diary) Append([][]byte, bool) error { d.note("append"); return nil }
func (d *diary) Sync() error                 { d.note("sync"); return nil }
func (*diary) Synchronous() bool             { return true }

func (d *diary) Send(_ multicast.ProcessID, data []byte) error {
	d.note(string(data))
	if string(data) == "early" {
		return d.refuses
	}
	return nil
}
func (*diary) Take(into []multicast.Frame, _ int) []multicast.Frame { return into }
func (*diary) Notify(func(bool))                                    {}
func (d *diary) Flush()                                             { d.note("flush") }
func (*diary) Close() error                                         { return nil }

// TestEarlyFramesDoNotWaitForTheDisk: they are on their way before the records are written. All others wait.
func TestEarlyFramesDoNotWaitForTheDisk(t *testing.T) {
	node := &diary{}
	d := New(1, node, node, node, NewSystemClock())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	require.NoError(t, d.Between(t.Context(), func() {}))
	for range 3 {
		node.mu.Lock()
		node.entries = nil
		node.mu.Unlock()
		_, err := d.Handle(t.Context(), nil, []byte("request"))
		require.NoError(t, err)
		require.NoError(t, d.Between(t.Context(), func() {})) // the turn has ended
		node.mu.Lock()
		first := slices.Index(node.entries, "early")
		require.GreaterOrEqual(t, first, 0)
		require.Equal(t, []string{"early", "flush", "append", "sync", "late", "flush"}, node.entries[first:first+6])
		node.mu.Unlock()
	}
	cancel()
	require.NoError(t, <-ended)
}

// TestAnEarlyFrameThatCannotLeaveStopsTheReplica: nothing else of its step happens.
func TestAnEarlyFrameThatCannotLeaveStopsTheReplica(t *testing.T) {
	broken := errors.New("broken link")
	for refuses, stops := range map[error]bool{broken: true, transport.ErrBacklog: false} {
		node := &diary{refuses: refuses}
		d := New(1, node, node, node, NewSystemClock())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		require.NoError(t, d.Between(t.Context(), func() {}))
		_, err := d.Handle(t.Context(), nil, []byte("request"))
		if stops {
			require.ErrorIs(t, err, ErrStopped)
			require.ErrorIs(t, <-ended, broken)
			require.NotContains(t, node.entries, "append")
			require.NotContains(t, node.entries, "late")
		} else {
			require.NoError(t, err)
			cancel()
			require.NoError(t, <-ended)
		}
		cancel()
	}
}
