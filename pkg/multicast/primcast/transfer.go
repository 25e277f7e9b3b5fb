package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var _ multicast.Transferable = (*Core)(nil)

// leaveBehind lets go of members that do not cover what a quorum of their group does, once more than
// retain bytes are kept for them. They take over the state of another member when they come back. What the own
// state machine does not hold durably stays.
func (c *Core) leaveBehind() {
	if c.log.live <= c.config.Retain {
		return
	}
	for _, id := range c.groupIDs {
		g := c.groups[id]
		if len(g.kept) == 0 {
			continue
		}
		upTo := g.coveredBy(g.quorum)
		if upTo.Compare(c.self.covered) > 0 {
			upTo = c.self.covered
		}
		if upTo.Compare(g.covered) > 0 {
			c.stats.LeftBehind++
			c.coveredUpTo(g, upTo)
		}
	}
}

// tellBehind says to q up to where its group cannot get deliveries from here any more.
func (c *Core) tellBehind(q *peer) {
	if q.covered.Compare(q.group.forgotten) < 0 {
		q.frame = appendBehind(q.frame, q.group.forgotten)
	}
}

// behindHeard: q has forgotten what this process may need up to a position. It does
// not if it has delivered that.
func (c *Core) behindHeard(p multicast.Position) {
	if p.Compare(c.delivered) > 0 || len(c.pending) > 0 && c.pending[0].position().Compare(p) <= 0 {
		if p.Compare(c.behind) > 0 {
			c.behind = p
		}
	}
}

// State implements multicast.Transferable.
func (c *Core) State() []byte {
	return c.appendCheckpoint(appendPosition(nil, c.delivered))
}

// Adopt implements multicast.Transferable. What this process has promised, acknowledged and said of its clock it
// keeps: T of the other is taken only if it contains all that this one may have acknowledged
// to a quorum. What this process knows to be delivered it knows afterwards, too (I9).
func (c *Core) Adopt(state []byte) (record []byte, at multicast.Position, err error) {
	r := varint.NewReader(state)
	if at = readPosition(r); r.Err() != nil {
		return nil, at, fmt.Errorf("primcast: state of %d bytes: %w", len(state), r.Err())
	}
	other, err := New(c.config)
	if err != nil {
		return nil, at, err
	}
	if err := other.Replay(r.Rest()); err != nil {
		return nil, at, err
	}
	order := other.current.Compare(c.current)
	if order < 0 || order == 0 && other.t.last() < c.t.last() || at.Compare(c.behind) < 0 || at.Compare(c.delivered) < 0 {
		return nil, at, fmt.Errorf("primcast: state of %d bytes: epoch %v, %d entries and delivered up to %v, this process is at %v, %d, and needs %v: ask another member, or later",
			len(state), other.current, other.t.last(), at, c.current, c.t.last(), c.behind)
	}
	if err := c.teach(other); err != nil {
		return nil, at, err
	}
	other.promised = maxEpoch(c.promised, other.current)
	other.log.ceiling = max(other.log.ceiling, c.log.ceiling, c.clock)
	return other.appendCheckpoint(nil), at, nil
}

// teach puts into the state of another, which has delivered all that this process has, what only this one knows of
// deliveries. The other may have restarted since, and what it has delivered be pending again, for want of the final
// timestamp, which those that could tell have forgotten.
func (c *Core) teach(other *Core) error {
	for _, m := range other.t.entries {
		if m == nil || m.decided {
			continue
		}
		switch known := c.messages[m.ID]; {
		case known != nil && known.decided:
			if err := m.replayFinal(known.bound); err != nil {
				return fmt.Errorf("primcast: state of another member: %w", err)
			}
		case known == nil && c.done.has(m.ID):
			other.done.add(m.ID, m.prev)
			other.forget(m)
		}
	}
	for _, id := range c.groupIDs {
		g := other.groups[id]
		if forgotten := c.groups[id].forgotten; forgotten.Compare(g.forgotten) > 0 {
			g.forgotten = forgotten
		}
	}
	return nil
}
