package tram

import (
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// lane is a queue of the fabric as this process uses it. A failed operation breaks it; it is reset when all
// operations on it have ended, and somebody has more to do.
type lane struct {
	peer      fabric.NodeID
	region    fabric.RegionID
	owner     owner
	flights   []flight
	broken    bool
	resetting bool
	retryAt   time.Duration
	failures  int // since something landed
}

// maxFailures is how often the time until the next reset doubles.
const maxFailures = 5

// flight is an operation without a completion.
type flight struct {
	token uint64
	kind  fabric.Kind
	mark  uint64 // for the owner
	term  uint32 // for the owner
}

// owner is told how the operations of a lane end. After failed it posts nothing until the lane is ready.
type owner interface {
	landed(f flight, c *fabric.Completion)
	failed(f flight)
}

func (c *Core) newLane(peer multicast.ProcessID, region fabric.RegionID, o owner) *lane {
	return &lane{peer: fabric.NodeID(peer), region: region, owner: o}
}

// ready reports whether operations may be posted. If the lane is broken, it is reset.
func (c *Core) ready(l *lane) bool {
	switch {
	case !l.broken:
		return true
	case l.resetting || len(l.flights) > 0:
	case c.now < l.retryAt:
		c.wakeAt(l.retryAt)
	default:
		l.resetting = true
		c.post(l, fabric.Op{Kind: fabric.Reset}, 0, 0)
	}
	return false
}

// settled reports whether all that was posted has ended, and none of it can land any more.
func (c *Core) settled(l *lane) bool { return c.ready(l) && len(l.flights) == 0 }

// post posts an operation.
func (c *Core) post(l *lane, op fabric.Op, mark uint64, term uint32) {
	c.token++
	op.Token, op.Peer, op.Region = c.token, l.peer, l.region
	l.flights = append(l.flights, flight{token: c.token, kind: op.Kind, mark: mark, term: term})
	c.tokens[c.token] = l
	c.out.Ops = append(c.out.Ops, op)
}

// complete consumes completions.
func (c *Core) complete(done []fabric.Completion) {
	for i := range done {
		d := &done[i]
		l := c.tokens[d.Token]
		if l == nil {
			c.stats.Malformed++
			continue
		}
		delete(c.tokens, d.Token)
		invariant.Check(l.flights[0].token == d.Token, "operation %d has ended before %d of the same queue", d.Token, l.flights[0].token)
		f := l.flights[0]
		l.flights = l.flights[1:]
		switch {
		case f.kind == fabric.Reset:
			l.resetting, l.broken = false, d.Status != fabric.OK
			c.retry(l)
		case d.Status == fabric.OK:
			l.failures = 0
			l.owner.landed(f, d)
		default:
			c.stats.Failed++
			l.broken = true
			c.retry(l)
			l.owner.failed(f)
		}
	}
}

// retry lets a broken lane rest before it is reset, longer each time.
func (c *Core) retry(l *lane) {
	if !l.broken {
		return
	}
	l.retryAt = c.now + c.cfg.RetryAfter<<l.failures
	if l.failures < maxFailures && len(l.flights) == 0 {
		l.failures++
	}
}
