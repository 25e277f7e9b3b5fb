package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var _ multicast.Transferable = (*Core)(nil)

// leaveBehind bounds the memory for absent members to Config.Retain. Beyond it, messages are forgotten that a
// quorum of each group covers and some members do not. These members must take over the state of another
// member when they return. Messages that the own state machine does not hold durably are kept.
func (c *delivery) leaveBehind() {
	if c.keptBytes <= c.config.Retain {
		return
	}
	for _, x := range c.classes {
		for _, id := range c.groupIDs {
			g := c.groups[id]
			if len(x.kept[g]) == 0 {
				continue
			}
			upTo := g.coveredBy(x.name, g.majority())
			if own := c.self.covered.Of(x.name); upTo.Compare(own) > 0 {
				upTo = own
			}
			if upTo.Compare(g.covered.Of(x.name)) > 0 {
				c.stats.LeftBehind++
				c.coveredUpTo(g, x.name, upTo)
			}
		}
	}
}

// sendForgotten informs q of the positions up to which this process has forgotten messages to its group
// that q does not cover.
func (q *peer) sendForgotten() {
	for _, at := range q.group.forgotten {
		if q.covered.Of(at.Class).Compare(at.Position) < 0 {
			q.frame = (&behindPacket{at}).append(q.frame)
		}
	}
}

// onBehind handles the information that q has forgotten messages of a class, up to a position. This process
// needs another state unless it has delivered them all. It is not enough that its state machine contains
// them: T would lack them for ever.
func (c *delivery) onBehind(q *peer, p *behindPacket) {
	if !c.concerns(p.Class, q) {
		c.stats.BadPackets++
		return
	}
	if p.Position.Compare(c.delivered.Of(p.Class)) > 0 || c.inDoubt(p.ClassPosition) {
		c.missing.Advance(p.Class, p.Position)
	}
}

// State implements multicast.Transferable.
func (c *Core) State() []byte {
	return c.appendState(appendProgress(nil, c.delivered))
}

// Adopt implements multicast.Transferable. This process keeps its promises, its acknowledgements and its
// clock. It takes the other T only if that T has all entries that this process may have acknowledged to a
// quorum. It keeps its knowledge of deliveries (I9).
func (c *Core) Adopt(state []byte) (record []byte, at multicast.Progress, err error) {
	r := varint.NewReader(state)
	if at = readProgress(r); r.Err() != nil {
		return nil, at, fmt.Errorf("primcast: state of %d bytes: %w", len(state), r.Err())
	}
	other, err := New(c.config)
	if err != nil {
		return nil, at, err
	}
	if err := other.Replay(r.Rest()); err != nil {
		return nil, at, err
	}
	if err := c.teach(other); err != nil {
		return nil, at, err
	}
	order := other.current.Compare(c.current)
	if order < 0 || order == 0 && other.t.last() < c.t.last() || !at.Covers(c.missing) || !other.holds().Covers(c.missing) || !at.Covers(c.delivered) {
		return nil, at, fmt.Errorf("primcast: state of %d bytes: epoch %v, %d entries and delivered up to %v, this process is at %v, %d, and needs %v: ask another member, or later",
			len(state), other.current, other.t.last(), at, c.current, c.t.last(), c.missing)
	}
	other.seated, other.state, other.lost, other.overlap.epoch = c.seated, c.state, c.lost, c.overlap.epoch
	other.promised = maxEpoch(c.promised, other.current)
	other.log.reaches(max(c.log.restartsAt(), c.clock))
	return other.appendCheckpoint(nil), at, nil
}

// teach adds the deliveries that only this process knows to the state of another process, whose deliveries
// are at least as far. The other process may have restarted since, so that its deliveries are pending without
// their final timestamps, while the processes that knew these have forgotten them.
func (c *variables) teach(other *Core) error {
	for m := range other.t.all() {
		if m.decided {
			continue
		}
		switch known := c.messages[m.ID]; {
		case known != nil && known.settled:
			if err := m.replayFinal(known.bound); err != nil {
				return fmt.Errorf("primcast: state of another member: %w", err)
			}
		case known == nil && c.done.has(m.ID):
			other.done.add(m.ID, m.prev)
			other.forget(m)
		}
	}
	for _, id := range c.groupIDs {
		other.groups[id].forgotten.Merge(c.groups[id].forgotten)
	}
	return nil
}
