package cross

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
)

// begin executes BEGIN at the coordinator, and PREPARE at another party.
func (c *Commands) begin(d *relay, e *order.Entry) error {
	x, p, command, q, err := open(d, e)
	if err != nil {
		return fmt.Errorf("command %v of several partitions: %w", d.at.ID, err)
	}
	if !slices.Contains(x.parties, c.cfg.Partition) {
		return fmt.Errorf("command %v of partitions %v: partition %d is none of them", x.id, x.parties, c.cfg.Partition)
	}
	c.number++
	x.number = c.number
	c.add(x)
	if x.coordinator == c.cfg.Partition && !c.admit(x, p.client, &q) {
		c.enter(x, aborted)
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
	if m, err = meta.DecodeCommand(q.Command); err != nil {
		return nil, p, m, q, err
	}
	if !isPartySet(d.parties, p.coordinator) {
		return nil, p, m, q, fmt.Errorf("parties %v, coordinator %d", d.parties, p.coordinator)
	}
	m.Time, m.Session, m.Authority = e.Time, q.Session, p.client.Bounds()
	m.Client = p.client.Owner()
	x = &command{
		id: d.at.ID, at: d.at, parties: d.parties, coordinator: p.coordinator, age: p.age,
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
// undecided, answered or abandoned is aborted; its calls get the answer of the first.
func (c *Commands) admit(x *command, client *ask.Client, q *ask.Request) bool {
	x.request = c.requests.begun(x.id)
	if c.tombstones[x.id] {
		delete(c.tombstones, x.id)
		c.keys.Delete(tombstoneKey(x.id))
		c.retry(x)
		return false
	}
	if c.IsFalse(q, x.id) {
		c.answer(x, ask.Unseen, nil)
		return false
	}
	v := c.sessions.Admit(x.update, client)
	if !v.Execute {
		c.answer(x, v.Outcome, v.Answer)
		return false
	}
	first := c.byUpdate(x.update) // not x, which is in no phase yet
	if first == nil {
		return true
	}
	first.request = first.request.join(x.request)
	x.request = nil
	return false
}

// judge applies wait-die to a command that has no vote yet. It reports whether the command has entered
// another phase.
func (c *Commands) judge(x *command, command *meta.Command) bool {
	if c.machine.Awaits(command) { // its inode is named by another partition, and on its way
		c.refuse(x)
		return true
	}
	conflicts := c.machine.Conflicts(x.number, command, x.parties)
	if c.isYounger(x, conflicts.Holders) || c.isYounger(x, conflicts.Waiters) {
		c.refuse(x)
		return true
	}
	if len(conflicts.Holders) > 0 {
		switch {
		case x.phase == waiting:
			return false
		case c.machine.Await(x.number, command, x.parties):
			c.enter(x, waiting)
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
	b := ballot{kind: approval, place: x.place, vector: c.vector, vote: v.Encoded}
	x.vote = appendBallot(nil, b)
	c.enter(x, voted)
	return true
}

// isYounger reports whether a command is younger than one of the commands with the given numbers.
func (c *Commands) isYounger(x *command, numbers []uint64) bool {
	for _, n := range numbers {
		i, found := slices.BinarySearchFunc(c.list, n, func(o *command, n uint64) int { return cmp.Compare(o.number, n) })
		if found && c.list[i].age.compare(x.age) < 0 {
			return true
		}
	}
	return false
}

// refuse ends a command here that met an older one. The coordinator has it proposed again.
func (c *Commands) refuse(x *command) {
	c.machine.Abort(x.number)
	if x.coordinator == c.cfg.Partition {
		c.enter(x, aborted)
		c.retry(x)
		return
	}
	x.vote = appendBallot(nil, ballot{kind: refusal})
	c.enter(x, refused)
}

// reconsider judges the waiting commands again, the oldest first, after holds were released or taken.
func (c *Commands) reconsider() {
	for again := true; again; {
		again = false
		for _, x := range c.waitingByAge() {
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

func (c *Commands) waitingByAge() []*command {
	var all []*command
	for _, x := range c.list {
		if x.phase == waiting {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *command) int { return cmp.Or(a.age.compare(b.age), cmp.Compare(a.number, b.number)) })
	return all
}
