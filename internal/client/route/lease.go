package route

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// Session opens the client's session in a partition, if there is none, and returns its number. A new session
// is ordered by a quorum of the partition, which proves that the partition takes updates.
func (r *Router) Session(ctx context.Context, partition uint16) (uint64, error) {
	p, err := r.partition(partition)
	if err != nil {
		return 0, err
	}
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	s, err := p.open(ctx)
	if err != nil {
		return 0, r.Outcome(err)
	}
	return s.id, nil
}

// HasSession reports whether the client has a session in a partition, as far as the client knows.
func (r *Router) HasSession(partition uint16) bool {
	p, err := r.partition(partition)
	return err == nil && p.session() != nil
}

// SessionOf returns the number of the client's session in a partition; 0: it has none.
func (r *Router) SessionOf(partition uint16) uint64 {
	p, err := r.partition(partition)
	if err != nil {
		return 0
	}
	if s := p.session(); s != nil {
		return s.id
	}
	return 0
}

// Unproven returns the time since the last answered renewal of the session in a partition was sent, including
// time for which the machine was asleep. If it exceeds the lease of the replicas, the session may have ended.
func (r *Router) Unproven(partition uint16) time.Duration {
	p, err := r.partition(partition)
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Elapsed(p.proven)
}

// Elapsed returns the time since a moment, including sleep of the machine: it is the longer one of the times
// by the monotonic clock, which stops during sleep, and by the wall clock.
func Elapsed(since time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// Renew sends the held inodes to a partition, and returns once the partition has ordered the renewal. It
// opens a session if there is none. It returns ESTALE if the session has expired.
func (r *Router) Renew(ctx context.Context, partition uint16) error {
	p, err := r.partition(partition)
	if err != nil {
		return err
	}
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	s, err := p.open(ctx)
	if err == nil {
		err = p.renew(ctx, s)
	}
	return r.Outcome(err)
}

// renewSessions renews the sessions of all partitions during a lifetime, each on its own, so that an
// unreachable partition does not delay the others. With atOnce it begins with a renewal.
func (r *Router) renewSessions(life context.Context, atOnce bool) {
	ticker := time.NewTicker(r.cfg.Renew)
	defer ticker.Stop()
	for ; ; atOnce = true {
		if atOnce {
			r.keepAll(life)
		}
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Router) keepAll(life context.Context) {
	ctx, cancel := context.WithTimeout(life, r.cfg.Renew)
	defer cancel()
	var round sync.WaitGroup
	for _, p := range r.partitions.All() {
		round.Go(func() { p.keep(ctx) })
	}
	round.Wait()
}

// keep renews the session in p. If there is none and inodes are held, it opens one. The next round repeats a
// failed renewal.
func (p *partition) keep(ctx context.Context) {
	s := p.session()
	if s == nil && p.holdsAny() {
		_, _ = p.open(ctx) // openNew logs the error
		return
	}
	if s != nil && p.renew(ctx, s) == posix.ESTALE {
		_, _ = p.open(ctx)
	}
	if s != nil {
		p.seekLeader(ctx)
	}
}

// renew sends the held inodes to p. It returns ESTALE if the session has expired. If p refuses the number of
// inodes, p continues to hold the inodes of the last accepted renewal, and does not reap inodes that are
// unlinked since. The session continues, and opens of further inodes fail until p accepts a renewal.
func (p *partition) renew(ctx context.Context, s *session) error {
	began := time.Now()
	var held []posix.Ino
	reply, _, err := p.exchange(ctx, ordering, func() ask.Request {
		q := p.request(ask.RenewSession) // before held: see "Why C5 holds"
		held = p.heldForRenewal()
		q.Session, q.Held, q.Horizon = s.id, held, s.horizon()
		q.Ticketed, q.Tickets = true, p.net.tickets.show(held)
		return q
	})
	if err == nil && reply.Status == ask.Refused {
		reason := string(reply.Result)
		// A renewal without a vector only extends the lease.
		reply, _, err = p.exchange(ctx, ordering, func() ask.Request {
			return ask.Request{Kind: ask.RenewSession, Session: s.id, Horizon: s.horizon()}
		})
		if err == nil && reply.Status == ask.Answered {
			p.net.notices.Rarely(fmt.Sprintf("held %d", p.id),
				"a partition refuses to hold more open files for this client: opens fail with ENFILE until some are closed",
				"partition", p.id, "path", p.path, "reason", reason)
			p.setFull(true)
			return nil
		}
	}
	switch {
	case err != nil:
		return err
	case reply.Status == ask.UnknownSession:
		p.lost(s)
		return posix.ESTALE
	case reply.Status != ask.Answered:
		return p.refused(&reply)
	}
	p.setFull(false)
	p.renewedAt(began)
	p.net.tickets.learn(reply.Tickets, nil, held)
	p.measured.add(time.Since(began))
	return nil
}
