package cross

import (
	"errors"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
)

// Execute executes an entry of the partition's own order, and may answer calls. The error is
// order.ErrVersion, or wraps it: the replica must stop.
func (c *Commands) Execute(e *order.Entry) error {
	c.gate.begin(e.Durable)
	err := c.execute(e)
	if err != nil && !errors.Is(err, order.ErrVersion) {
		return fmt.Errorf("%w: %w", err, order.ErrVersion)
	}
	return err
}

func (c *Commands) execute(e *order.Entry) error {
	r := varint.NewReader(e.Body)
	switch e.Kind {
	case EntryRelay:
		return c.executeRelay(e.Body)
	case EntryDecide:
		d, err := readDecision(e.Body)
		if err != nil {
			return fmt.Errorf("decision: %w", err)
		}
		c.decide(&d)
		return nil
	case EntryOutcome:
		o := readOutcome(r)
		if r.Done() == nil {
			c.conclude(&o)
		}
	case EntryAbort:
		for _, n := range readList(r, readName) {
			c.abort(&n)
		}
	case EntryForget:
		for _, x := range readList(r, readForgotten) {
			c.forget(&x)
		}
	case EntryAbandon:
		for _, n := range readList(r, readAbandoned) {
			c.abandon(n)
		}
	case EntryPosts:
		p := readPosts(r)
		if r.Done() == nil {
			return c.posting.execute(&p)
		}
	case EntryPosted:
		x := readReceipt(r)
		if r.Done() == nil {
			c.machine.Posted(x.from, x.upTo)
		}
	case EntrySeal:
	default:
		return fmt.Errorf("%w: kind %d", order.ErrVersion, e.Kind)
	}
	if err := r.Done(); err != nil {
		return fmt.Errorf("entry of kind %d: %w", e.Kind, err)
	}
	return nil
}

// decide executes DECIDE: the commit point. All parties have voted.
func (c *Commands) decide(d *decision) {
	x := c.table.find(d.id)
	if x == nil || x.phase != voted || x.coordinator != c.cfg.Partition || len(d.ballots) != len(x.parties) {
		return // decided before
	}
	// The session has ended, or the update was abandoned: the command must not be executed any more.
	if !c.sessions.IsOpen(x.update) {
		c.drop(x)
		c.requests.answer(x, ask.UnknownSession, nil)
		return
	}
	own := readBallot(varint.NewReader(x.vote))
	d.ballots[slices.Index(x.parties, c.cfg.Partition)] = own
	votes := make([][]byte, len(d.ballots))
	for i := range d.ballots {
		votes[i] = d.ballots[i].vote
	}
	result := c.machine.Decide(x.number, votes, c.Count())
	x.vote = nil
	for i, p := range x.parties {
		if p == c.cfg.Partition {
			continue
		}
		c.Observe(d.ballots[i].vector)
		if result.Code == posix.OK {
			c.vector.open(p, &d.ballots[i])
		}
	}
	answer := result.Append(nil)
	c.sessions.Record(x.update, answer)
	c.requests.answer(x, ask.Answered, answer)
	if result.Code == posix.OK {
		x.votes = votes
		c.table.enter(x, committed)
	} else {
		c.table.enter(x, aborted)
	}
	c.reconsider()
}

// abort executes ABORT; the asked replica proposes the command again. A command that is not relayed yet gets
// a tombstone, so that its relay aborts it: another party may hold objects for it, and need not wait for the
// relay.
func (c *Commands) abort(n *name) {
	x := c.table.find(n.id)
	switch {
	case x == nil && !c.relays.hasEnded(n):
		c.tombstones.set(n.id)
	case x != nil && x.isUndecided() && x.coordinator == c.cfg.Partition:
		c.drop(x)
		c.requests.retry(x)
	}
}

// drop aborts an undecided command that this partition coordinates.
func (c *Commands) drop(x *command) {
	c.machine.Abort(x.number)
	x.vote = nil
	c.table.enter(x, aborted)
	c.reconsider()
}

// conclude executes OUTCOME at a party that does not coordinate the command (X1).
func (c *Commands) conclude(o *outcome) {
	x := c.table.find(o.id)
	if x == nil || x.coordinator == c.cfg.Partition {
		return // concluded before
	}
	if o.commit {
		invariant.Check(x.phase == voted, "command %v is committed, and this party is in phase %d of it (X1)", x.id, x.phase)
		result := c.machine.Decide(x.number, o.votes, c.Count())
		invariant.Check(result.Code == posix.OK, "command %v is committed, and ends here with %v (X1)", x.id, result.Code)
	} else {
		c.machine.Abort(x.number)
	}
	c.table.remove(x)
	c.Observe(o.vector)
	c.pursuit.concluded(x)
	c.reconsider()
}

// forget executes FORGET: all parties have confirmed the outcome (X4).
func (c *Commands) forget(f *forgotten) {
	x := c.table.find(f.id)
	if x == nil || x.isUndecided() {
		return
	}
	for _, s := range f.entries {
		if s.partition != c.cfg.Partition && slices.Contains(x.parties, s.partition) {
			v := make(ask.Vector, s.partition+1)
			v[s.partition] = s.entry
			c.Observe(v)
		}
	}
	c.table.remove(x)
}

// abandon executes ABANDON (X5): an update without an answer gets ETIMEDOUT as its answer. An undecided
// command of the update is aborted. All calls for the update are answered.
func (c *Commands) abandon(n session.Name) {
	u := session.Update{Session: n.Session, Seq: n.Seq}
	v := session.Verdict{Outcome: ask.UnknownSession}
	if c.sessions.IsOwner(n.Session, n.Client) {
		if c.sessions.IsOpen(u) {
			result := meta.Result{Code: posix.ETIMEDOUT}
			c.sessions.Record(u, result.Append(nil))
		}
		v = c.sessions.Admit(u, nil)
		if x := c.table.byUpdate(u); x != nil {
			c.drop(x)
			c.requests.answer(x, v.Outcome, v.Answer)
		}
	}
	c.requests.abandon(n, v)
	c.table.touch()
}
