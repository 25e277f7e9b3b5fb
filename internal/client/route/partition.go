package route

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// partition is one partition, and the client's session in it.
type partition struct {
	id       uint16
	path     string
	cluster  []byte // the cluster's identity
	net      *exchanger
	replicas atomic.Pointer[replicas]
	counts   counts
	measured distance
	durable  durable
	beside   BestEffort          // persistAll of an operation that does not depend on this partition
	window   *semaphore.Weighted // bytes of updates under way

	opening chan struct{} // holds one token while a session is being opened

	mu       sync.Mutex
	current  *session          // GUARDED_BY mu; nil: none is known to be open
	held     map[posix.Ino]int // GUARDED_BY mu; how often each inode is held, at least once
	renewals uint64            // GUARDED_BY mu; number of reads of held for renewals
	proven   time.Time         // GUARDED_BY mu; when the last renewal was sent that was answered
	full     bool              // GUARDED_BY mu; the replicas have refused the last renewal that named held
}

func newPartition(cfg *Config, p *topology.Partition, net *exchanger) *partition {
	made := &partition{
		id: p.ID, path: p.Path, cluster: cfg.Cluster.Identity(), net: net,
		window: semaphore.NewWeighted(windowBytes), opening: make(chan struct{}, 1), held: map[posix.Ino]int{},
	}
	made.replicas.Store(newReplicas(cfg.Region, p.Replicas))
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

// renewedAt records that a renewal which was sent at a time was answered.
func (p *partition) renewedAt(sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proven = sent
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

// open returns the session in p, and opens one if there is none.
func (p *partition) open(ctx context.Context) (*session, error) {
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
	began := time.Now()
	s, err := p.openNew(ctx)
	if err != nil {
		return nil, err
	}
	p.setSession(s)
	p.renewedAt(began)
	if p.holdsAny() {
		// The previous session was lost: hold the open inodes again before they are reaped.
		err = p.renew(ctx, s)
	}
	return s, err
}

// openNew opens a new session in p. A session whose opening got no answer is never used again, because it may
// have been opened and ended since.
func (p *partition) openNew(ctx context.Context) (*session, error) {
	for {
		s, began := newSession(), time.Now()
		reply, _, err := p.exchange(ctx, ordering, func() ask.Request {
			q := p.request(ask.OpenSession)
			q.Session, q.Command = s.id, p.cluster
			return q
		})
		switch {
		case err != nil:
			return nil, err
		case reply.Status == ask.Answered:
			p.measured.add(time.Since(began))
			return s, nil
		case reply.Status != ask.UnknownSession:
			return nil, p.refused(&reply)
		}
	}
}

// refused logs a reply that only a replica of another version returns, and returns the error.
func (p *partition) refused(reply *ask.Reply) error {
	p.net.notices.Rarely("refused", "a replica refuses a request: client and servers are probably of different versions",
		"partition", p.id, "status", reply.Status, "reason", string(reply.Result))
	return fmt.Errorf("refused by partition %d: %w", p.id, posix.EIO)
}

// lost drops a session that the replicas do not know any more.
func (p *partition) lost(s *session) {
	if p.forget(s) {
		p.net.notices.Warn("a session expired: this client was cut off from a partition for longer than the lease; the locks it had on files are lost, and files that were removed while open here may be gone",
			"partition", p.id, "path", p.path)
	}
}

// close ends the session in p.
func (p *partition) close(ctx context.Context) {
	s := p.session()
	if s == nil {
		return
	}
	_, _, err := p.exchange(ctx, ordering, func() ask.Request {
		q := p.request(ask.CloseSession)
		q.Session = s.id
		return q
	})
	if err != nil {
		p.net.notices.Debug("a session could not be closed: it ends with its lease", "partition", p.id, "error", err)
	}
	p.forget(s)
}
