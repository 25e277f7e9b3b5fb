package region

import (
	"context"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// flushes let concurrent callers share the flushes of a server. At most one flush runs on a server and one
// waits for it. All calls that come before the waiting flush begins get its result. So the number of flushes
// does not grow with the number of clients that sync.
type flushes struct {
	mu   sync.Mutex
	next map[multicast.ProcessID]*flush        // GUARDED_BY mu; has not begun
	runs map[multicast.ProcessID]chan struct{} // GUARDED_BY mu; holds a token while a flush runs
}

// flush is one flush of a server.
type flush struct {
	done chan struct{}
	err  error // valid after done is closed
}

func newFlushes() *flushes {
	return &flushes{next: map[multicast.ProcessID]*flush{}, runs: map[multicast.ProcessID]chan struct{}{}}
}

// do returns the result of a flush of a server that begins after the call. Concurrent callers share a flush.
// The caller that begins the flush waits for its end, also if ctx ends before; the other callers return when
// their ctx ends.
func (f *flushes) do(ctx context.Context, server multicast.ProcessID, run func(context.Context) error) error {
	f.mu.Lock()
	one := f.next[server]
	if one != nil {
		f.mu.Unlock()
		select {
		case <-one.done:
			return one.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	one = &flush{done: make(chan struct{})}
	f.next[server] = one
	if f.runs[server] == nil {
		f.runs[server] = make(chan struct{}, 1)
	}
	runs := f.runs[server]
	f.mu.Unlock()
	runs <- struct{}{}
	f.mu.Lock()
	delete(f.next, server)
	f.mu.Unlock()
	one.err = run(context.WithoutCancel(ctx))
	close(one.done)
	<-runs
	return one.err
}

// flushAt writes all blocks of one server to its disk, so that they survive a loss of power.
func (n *Node) flushAt(ctx context.Context, server multicast.ProcessID) error {
	return n.flushes.do(ctx, server, func(ctx context.Context) error {
		if server == n.config.Self {
			return block.Sync(ctx, n.config.Disk)
		}
		_, err := n.peers.call(ctx, server, []byte{byte(opFlush)})
		return err
	})
}
