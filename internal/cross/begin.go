package cross

import (
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
)

// executeRelay executes a relay if it follows the last one of its class (X2).
func (c *Commands) executeRelay(body []byte) error {
	d, err := readRelay(body)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	if !c.relays.advance(&d) {
		return nil
	}
	e, err := order.DecodeEntry(d.payload)
	if err == nil && e.Kind != EntryCommand {
		err = fmt.Errorf("%w: kind %d between partitions", order.ErrVersion, e.Kind)
	}
	if err != nil {
		return err
	}
	return c.begin(&d, &e)
}

// begin executes BEGIN at the coordinator, and PREPARE at another party.
func (c *Commands) begin(d *relay, e *order.Entry) error {
	x, p, command, q, err := open(d, e)
	if err != nil {
		return fmt.Errorf("command %v of several partitions: %w", d.at.ID, err)
	}
	if !slices.Contains(x.parties, c.cfg.Partition) {
		return fmt.Errorf("command %v of partitions %v: partition %d is none of them", x.id, x.parties, c.cfg.Partition)
	}
	x.number = c.relays.next()
	c.table.add(x)
	if x.coordinator == c.cfg.Partition && !c.admit(x, p.client, &q) {
		c.table.enter(x, aborted)
		return nil
	}
	c.Observe(q.Vector)
	c.judge(x, &command)
	c.reconsider()
	return nil
}

// open decodes a relayed command. The asked replica has validated it, so that an error means another version.
func open(d *relay, e *order.Entry) (x *command, p proposal, m meta.Command, q ask.Request, err error) {
	if p, err = readProposal(e.Body); err != nil {
		return nil, p, m, q, err
	}
	if q, err = ask.DecodeRequest(p.request); err != nil {
		return nil, p, m, q, err
	}
	q.Merge()
	if m, err = meta.DecodeCommand(q.Command); err != nil {
		return nil, p, m, q, err
	}
	if !isPartySet(d.parties, p.coordinator) {
		return nil, p, m, q, fmt.Errorf("parties %v, coordinator %d", d.parties, p.coordinator)
	}
	m.Time, m.Session, m.Authority = e.Time, q.Session, p.client.Bounds()
	m.Client = p.client.Owner()
	x = &command{
		id: d.at.ID, position: d.at, parties: d.parties, coordinator: p.coordinator, age: p.age,
		update: session.Update{Session: q.Session, Seq: q.Seq, Done: q.Done}, attempt: p.attempt,
	}
	if x.age == (Age{}) {
		x.age = Age{Time: e.Time, ID: x.id}
	}
	return x, p, m, q, nil
}

// isPartySet reports whether parties are sorted partitions, the coordinator among them.
func isPartySet(parties []uint16, coordinator uint16) bool {
	for i, p := range parties {
		if p >= ask.MaxPartitions || i > 0 && p <= parties[i-1] {
			return false
		}
	}
	return slices.Contains(parties, coordinator)
}

// admit decides at the coordinator whether the session allows the update. A copy of an update that is
// undecided, answered or abandoned is aborted. The calls for the copy get the answer to the update.
func (c *Commands) admit(x *command, client *ask.Client, q *ask.Request) bool {
	maps.Copy(x.received, c.earlyBallots.take(x.id))
	c.requests.begin(x)
	if c.tombstones.has(x.id) {
		c.tombstones.remove(x.id)
		c.requests.retry(x)
		return false
	}
	if c.IsFalse(q, x.id) {
		c.requests.answer(x, ask.Unseen, nil)
		return false
	}
	v := c.sessions.Admit(x.update, client)
	if !v.Execute {
		c.requests.answer(x, v.Outcome, v.Answer)
		return false
	}
	first := c.table.byUpdate(x.update) // not x, which is in no phase yet
	if first == nil {
		return true
	}
	first.request = first.request.join(x.request)
	x.request = nil
	return false
}

// judge applies wait-die to a command without a vote: the command votes, waits or is refused. judge reports
// whether the command has entered another phase.
func (c *Commands) judge(x *command, command *meta.Command) bool {
	if c.machine.Awaits(command) { // the post that makes its inode has not come yet
		c.refuse(x)
		return true
	}
	if c.cfg.Recall != nil && c.cfg.Recall(command, x.parties) {
		c.refuse(x) // it is proposed again until clients have returned the held directories
		return true
	}
	conflicts := c.machine.Conflicts(x.number, command, x.parties)
	if c.table.isYounger(x.age, conflicts.Holders) || c.table.isYounger(x.age, conflicts.Waiters) {
		c.refuse(x)
		return true
	}
	if len(conflicts.Holders) > 0 {
		switch {
		case x.phase == waiting:
			return false
		case c.machine.Await(x.number, command, x.parties):
			c.table.enter(x, waiting)
		default:
			c.refuse(x)
		}
		return true
	}
	v := c.machine.Prepare(x.number, command, x.parties)
	if v.Code == posix.EHELD {
		c.refuse(x)
		return true
	}
	x.place = c.Count()
	b := ballot{kind: approval, place: x.place, vector: c.Vector(), vote: v.Encoded}
	x.vote = appendBallot(nil, b)
	c.table.enter(x, voted)
	return true
}

// refuse ends a command at this party because it must not wait for the objects that it needs. The coordinator
// aborts the command, and the asked replica proposes it again.
func (c *Commands) refuse(x *command) {
	c.machine.Abort(x.number)
	if x.coordinator == c.cfg.Partition {
		c.table.enter(x, aborted)
		c.requests.retry(x)
		return
	}
	x.vote = appendBallot(nil, ballot{kind: refusal})
	c.table.enter(x, refused)
}

// reconsider judges the waiting commands again, the oldest first, after holds were released or taken.
func (c *Commands) reconsider() {
	for again := true; again; {
		again = false
		for _, x := range c.table.waitingByAge() {
			if x.phase != waiting {
				continue
			}
			command, _, ok := c.machine.Awaiting(x.number)
			if ok {
				command.Session = x.update.Session
				again = c.judge(x, &command) || again
			}
		}
	}
}
