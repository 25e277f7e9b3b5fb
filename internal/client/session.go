package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
)

// begin numbers an update. It waits while too many are under way.
func (p *partition) begin(ctx context.Context) (session, seq, done uint64, err error) {
	for {
		if err := p.openSession(ctx); err != nil {
			return 0, 0, 0, err
		}
		p.mu.Lock()
		if p.session == 0 {
			p.mu.Unlock()
			continue
		}
		if p.next-p.done <= replica.MaxOutstanding {
			session, seq, done = p.session, p.next, p.done
			p.next++
			p.mu.Unlock()
			return session, seq, done, nil
		}
		moved := p.moved
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, 0, 0, ctx.Err()
		}
	}
}

// end says that an update was answered, or given up: then the replicas will refuse it if it
// still arrives, once they have heard of it.
func (p *partition) end(session, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session != p.session {
		return
	}
	p.answered[seq] = true
	for p.answered[p.done+1] {
		p.done++
		delete(p.answered, p.done)
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

// openSession makes sure that there is a session.
func (p *partition) openSession(ctx context.Context) error {
	p.mu.Lock()
	open := p.session != 0
	p.mu.Unlock()
	if open {
		return nil
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	p.mu.Lock()
	open = p.session != 0
	p.mu.Unlock()
	if open {
		return nil
	}
	id := newSession()
	reply, _, err := p.ask(ctx, &replica.Request{Kind: replica.OpenSession, Session: id})
	if err != nil {
		return err
	}
	if reply.Status != replica.Answered {
		return fmt.Errorf("partition %d does not open a session (status %d): %s", p.id, reply.Status, reply.Result)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.next, p.done = id, 1, 0
	clear(p.answered)
	return nil
}

// lost notes that the partition does not know a session any more.
func (p *partition) lost(session uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == session {
		p.session = 0
		p.client.cfg.Logger.Warn("the session has expired: files that were unlinked while open may be gone", "partition", p.id)
	}
}

func (p *partition) closeSession(ctx context.Context) {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	if session == 0 {
		return
	}
	if _, _, err := p.ask(ctx, &replica.Request{Kind: replica.CloseSession, Session: session}); err != nil {
		p.client.cfg.Logger.Info("session not closed: it will expire", "partition", p.id, "error", err)
	}
}

// renewals keeps the sessions alive until ctx ends.
func (c *Client) renewals(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Renewal)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var renewing sync.WaitGroup
		for _, p := range c.partitions {
			renewing.Go(func() { p.renew(ctx) })
		}
		renewing.Wait()
	}
}

// renew says what this client holds open (internal/replica, session.go). A creation under way may
// be of an inode that was seen and unlinked already: nothing after its begin counts as seen.
func (p *partition) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*p.client.cfg.Renewal)
	defer cancel()
	p.mu.Lock()
	q := &replica.Request{Kind: replica.RenewSession, Session: p.session, Vector: p.client.Vector(), Held: slices.Sorted(maps.Keys(p.held))}
	if len(p.creating) > 0 {
		q.Vector[p.id] = min(q.Vector[p.id], slices.Min(p.creating))
	}
	p.mu.Unlock()
	if q.Session == 0 {
		return
	}
	reply, _, err := p.ask(ctx, q)
	if err == nil && reply.Status == replica.UnknownSession {
		p.lost(q.Session)
	}
}

// hold counts one more open file; it says whether there was one before.
func (p *partition) hold(i posix.Ino) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[i]++
	return p.held[i] > 1
}

// release counts one less.
func (p *partition) release(i posix.Ino) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[i]--; p.held[i] <= 0 {
		delete(p.held, i)
	}
}

// beginCreate marks a creation under way until the function that it gives is called.
func (p *partition) beginCreate() (end func()) {
	at := p.client.Vector().Of(p.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.creating = append(p.creating, at)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.creating, at)
		p.creating = slices.Delete(p.creating, i, i+1)
	}
}
