package block

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Caller reaches the storage servers. The transport is one.
type Caller interface {
	// Call sends a request to the Node of a server and gives its reply, which belongs to
	// who called. It does not change request, and returns soon after ctx ends. An error
	// says that the server may or may not have done what was asked.
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
}

// suspicion is how long a server that did not answer is asked last.
const suspicion = 5 * time.Second

// peers is a Caller that waits for each server a limited time and remembers which
// ones did not answer, so that a hung one delays one call and not all.
type peers struct {
	caller  Caller
	timeout time.Duration

	mu      sync.Mutex
	suspect map[multicast.ProcessID]time.Time // GUARDED_BY mu; until when
}

func newPeers(caller Caller, timeout time.Duration) *peers {
	return &peers{caller: caller, timeout: timeout, suspect: make(map[multicast.ProcessID]time.Time)}
}

// call gives a good reply; ErrUnavailable if there was no reply; the
// error of ctx if that has ended; or the error that the server answered.
func (p *peers) call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	attempt, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	reply, err := p.caller.Call(attempt, to, request)
	if err == nil {
		p.trust(to)
		return reply, replyErr(reply)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	p.mu.Lock()
	p.suspect[to] = time.Now().Add(suspicion)
	p.mu.Unlock()
	return nil, fmt.Errorf("storage server %d: %w: %w", to, ErrUnavailable, err)
}

func (p *peers) trust(to multicast.ProcessID) {
	p.mu.Lock()
	delete(p.suspect, to)
	p.mu.Unlock()
}

// order gives servers with the suspected ones moved to the end.
func (p *peers) order(servers []multicast.ProcessID) []multicast.ProcessID {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.suspect) == 0 {
		return servers
	}
	suspected := func(s multicast.ProcessID) int {
		if now.Before(p.suspect[s]) {
			return 1
		}
		return 0
	}
	servers = slices.Clone(servers)
	slices.SortStableFunc(servers, func(a, b multicast.ProcessID) int { return suspected(a) - suspected(b) })
	return servers
}
