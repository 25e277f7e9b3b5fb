package client

import (
	"context"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// renewUntilClosed renews the sessions of all partitions, each on its own: one that is cut off
// does not keep the others from it. atOnce: nobody did for a while.
func (c *Client) renewUntilClosed(life context.Context, atOnce bool) {
	ticker := time.NewTicker(c.cfg.Renew)
	defer ticker.Stop()
	for ; ; atOnce = true {
		if atOnce {
			c.keepAll(life)
		}
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Client) keepAll(life context.Context) {
	ctx, cancel := context.WithTimeout(life, c.cfg.Renew)
	defer cancel()
	var round sync.WaitGroup
	for _, p := range c.partitions {
		round.Go(func() { c.keep(ctx, p) })
	}
	round.Wait()
}

// keep renews the session in p, or opens one if there is none and inodes are open. What fails
// is tried again in the next round.
func (c *Client) keep(ctx context.Context, p *partition) {
	s := p.session()
	if s == nil && p.holdsAny() {
		_, _ = c.session(ctx, p) // logged where it fails
		return
	}
	if s != nil && c.renew(ctx, p, s) == posix.ESTALE {
		_, _ = c.session(ctx, p)
	}
}

// renew tells p which inodes are open. ESTALE if the session is gone.
func (c *Client) renew(ctx context.Context, p *partition, s *session) error {
	vector := c.vector.snapshot() // before held: see "Why C5 holds"
	held, horizon := p.tellHeld(), s.horizon()
	reply, _, err := c.exchange(ctx, p, ordering, func() ask.Request {
		return ask.Request{Kind: ask.RenewSession, Session: s.id, Vector: vector, Held: held, Horizon: horizon}
	})
	switch {
	case err != nil:
		return err
	case reply.Status == ask.UnknownSession:
		c.lost(p, s)
		return posix.ESTALE
	case reply.Status != ask.Answered:
		return c.refused(p, &reply)
	}
	return nil
}

// lost drops a session that the replicas do not know any more.
func (c *Client) lost(p *partition, s *session) {
	if p.forget(s) {
		c.events.logger.Warn("a session expired: this client was cut off from a partition for longer than the lease; the locks it had on files are lost, and files that were removed while open here may be gone",
			"partition", p.id, "path", p.path)
	}
}

// closeSessions says goodbye to all partitions.
func (c *Client) closeSessions(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range c.partitions {
		s := p.session()
		if s == nil || c.suspended.Load() {
			continue
		}
		all.Go(func() {
			c.returnNumbers(ctx, p, s)
			_, _, err := c.exchange(ctx, p, ordering, func() ask.Request {
				return ask.Request{Kind: ask.CloseSession, Session: s.id, Vector: c.vector.snapshot()}
			})
			if err != nil {
				c.events.logger.Debug("a session could not be closed: it ends with its lease", "partition", p.id, "error", err)
			}
			p.forget(s)
		})
	}
	all.Wait()
}
