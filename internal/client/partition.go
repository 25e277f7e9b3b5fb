package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// partition is what the client knows of one partition.
type partition struct {
	id     uint16
	path   string
	route  atomic.Pointer[route]
	blocks block.Store

	opening chan struct{} // holds one token while somebody opens a session
	numbers numbers
	counts  counts

	mu      sync.Mutex
	current *session          // GUARDED_BY mu; nil: none is known to be open
	held    map[posix.Ino]int // GUARDED_BY mu; how often each inode is open, at least once
	said    uint64            // GUARDED_BY mu; how often held was told to the replicas
}

func newPartition(cfg *Config, p *topology.Partition) *partition {
	made := &partition{
		id: p.ID, path: p.Path, blocks: cfg.Blocks(p.ID),
		opening: make(chan struct{}, 1), numbers: numbers{filling: make(chan struct{}, 1)}, held: map[posix.Ino]int{},
	}
	made.route.Store(newRoute(cfg.Region, p.Replicas))
	return made
}

func (p *partition) session() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

func (p *partition) setSession(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = s
}

// forget drops s if it is the current session, and reports whether it was.
func (p *partition) forget(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != s {
		return false
	}
	p.current = nil
	return true
}

// hold counts ino as open once more, and gives how often it was open before. EBUSY if more are open
// than a renewal can name.
func (p *partition) hold(ino posix.Ino) (before int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.held[ino]
	if before == 0 && len(p.held) >= ask.MaxHeld {
		return 0, posix.EBUSY
	}
	p.held[ino] = before + 1
	return before, nil
}

// release undoes one hold.
func (p *partition) release(ino posix.Ino) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[ino]--; p.held[ino] <= 0 {
		delete(p.held, ino)
	}
}

// tellHeld gives the open inodes for a renewal.
func (p *partition) tellHeld() []posix.Ino {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said++
	held := make([]posix.Ino, 0, len(p.held))
	for ino := range p.held {
		held = append(held, ino)
	}
	return held
}

// told counts the calls of tellHeld.
func (p *partition) told() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

func (p *partition) holdsAny() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held) > 0
}

// OpenPartition opens the client's session in a partition, if it has none. It returns once a quorum
// of the partition has ordered it: the partition takes updates.
func (c *Client) OpenPartition(ctx context.Context, partition uint16) error {
	p, err := c.partition(partition)
	if err != nil {
		return err
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, err = c.session(ctx, p)
	return c.outcome(err)
}

// session gives the session in p, and opens one if there is none.
func (c *Client) session(ctx context.Context, p *partition) (*session, error) {
	if s := p.session(); s != nil {
		return s, nil
	}
	select {
	case p.opening <- struct{}{}:
		defer func() { <-p.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := p.session(); s != nil {
		return s, nil
	}
	s, err := c.openSession(ctx, p)
	if err != nil {
		return nil, err
	}
	p.setSession(s)
	if p.holdsAny() {
		// The last session was lost: claim what is still open before it is reaped.
		err = c.renew(ctx, p, s)
	}
	return s, err
}

// openSession opens a new session in p. One that was opened without an answer, and has ended meanwhile, is never opened again.
func (c *Client) openSession(ctx context.Context, p *partition) (*session, error) {
	for {
		s := newSession()
		reply, _, err := c.exchange(ctx, p, ordering, func() ask.Request {
			return ask.Request{Kind: ask.OpenSession, Session: s.id, Vector: c.vector.snapshot(), Command: c.cfg.Cluster.Identity()}
		})
		switch {
		case err != nil:
			return nil, err
		case reply.Status == ask.Answered:
			return s, nil
		case reply.Status != ask.UnknownSession:
			return nil, c.refused(p, &reply)
		}
	}
}

// refused logs a reply that only a replica of another version gives.
func (c *Client) refused(p *partition, reply *ask.Reply) error {
	c.events.warn("refused", "a replica refuses a request: client and servers are probably of different versions",
		"partition", p.id, "status", reply.Status, "reason", string(reply.Result))
	return fmt.Errorf("refused by partition %d: %w", p.id, posix.EIO)
}
