package metatest

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// pending is an undecided command over several partitions.
type pending struct {
	number    uint64
	asked     *meta.Command // as the generator made it
	command   meta.Command
	parties   []uint16
	last      uint16 // the party at which it was relayed last; the time of this relay counts
	votes     [][]byte
	disturbed bool         // another command was executed since the first vote
	refusals  []posix.Code // for each party that has refused it alone: the code, and the answer of the model at that time
}

// advance executes one more step of an undecided command.
func (c *cluster) advance() error {
	x := c.undecided[c.pick(len(c.undecided))]
	switch {
	case !c.calm && c.chance(20):
		return c.abort(x)
	case len(x.votes) == len(x.parties):
		return c.decide(x)
	}
	p := c.partitions[x.parties[c.pick(len(x.parties))]]
	for len(p.relayed) == 0 {
		p = c.partition()
	}
	return c.prepare(p)
}

// prepare executes the next command in the order between partitions at p.
func (c *cluster) prepare(p *partition) error {
	x := p.relayed[0]
	p.relayed = p.relayed[1:]
	timed := x.command
	if p.cfg.Partition != x.last {
		timed.Time -= posix.Time(c.pick(3))
	}
	encoded := timed.Append(nil)
	waits := c.chance(4)
	vote, err := each(p, func(m *meta.Machine) meta.Vote {
		decoded, err := meta.DecodeCommand(encoded)
		if err != nil {
			return meta.Vote{}
		}
		if waits {
			m.Await(x.number, &decoded, x.parties)
		}
		held := len(m.Conflicts(x.number, &decoded, x.parties).Holders) > 0
		v := m.Prepare(x.number, &decoded, x.parties)
		if held != (v.Code == posix.EHELD) {
			return meta.Vote{}
		}
		return v
	})
	x.votes = append(x.votes, vote.Encoded)
	if err == nil && vote.Encoded == nil {
		err = fmt.Errorf("%+v at partition %d: its vote is not that of its conflicts", x.command, p.cfg.Partition)
	}
	if err == nil && vote.Code != posix.OK && !again(vote.Code) {
		err = c.refused(x, vote)
	}
	return err
}

// refused records that a party refuses x alone. The model must refuse x now, because the party holds nothing,
// so the reason may disappear later. Unless the code is final, the client may have sent wrong inodes for the
// names.
func (c *cluster) refused(x *pending, vote meta.Vote) error {
	switch x.command.Op {
	case meta.OpMove, meta.OpPlace:
		return nil
	}
	want := c.model.try(x.asked)
	aboveIt := vote.Code == posix.EISDIR && want == posix.ENOTEMPTY // as in compare
	if want == posix.OK && c.isNamed(x) || vote.Final && want != vote.Code && !aboveIt {
		return fmt.Errorf("%+v is refused alone with %v, the model says %v", x.command, vote.Code, want)
	}
	x.refusals = append(x.refusals, vote.Code, want)
	return nil
}

// isNamed reports whether the names of x name the inodes that its client has found.
func (c *cluster) isNamed(x *pending) bool {
	names := func(dir posix.Ino, name string, child posix.Ino) bool {
		d := c.model.nodes[dir]
		return d == nil || name == "" || d.names[name] == c.known[child]
	}
	switch x.command.Op {
	case meta.OpUnlink, meta.OpRmdir:
		return names(x.asked.Ino, x.asked.Name, x.command.Child)
	case meta.OpRename:
		return names(x.asked.Ino, x.asked.Name, x.command.Child) && names(x.asked.NewParent, x.asked.NewName, x.command.NewChild)
	}
	return true
}

// settle decides all commands, and then repeats the commands that have met others.
func (c *cluster) settle() error {
	for len(c.undecided) > 0 {
		if err := c.advance(); err != nil {
			return err
		}
	}
	again := c.again
	c.again = nil
	for _, u := range again {
		if err := c.alone(u); err != nil {
			return err
		}
	}
	return nil
}

// alone executes u while no other command is undecided.
func (c *cluster) alone(u *meta.Command) error {
	c.calm = true
	defer func() { c.calm = false }()
	for range 4 {
		if err := c.begin(u); err != nil {
			return err
		}
		for len(c.undecided) > 0 {
			if err := c.advance(); err != nil {
				return err
			}
		}
		if len(c.again) == 0 {
			return nil
		}
		c.again = nil
		if err := c.deliverAll(); err != nil { // u may wait for inode numbers, or for the creation of an inode
			return err
		}
	}
	return fmt.Errorf("%+v comes to no end", u)
}

// decide passes the votes to all parties, in any order. A party that has decided may execute later commands
// that depend on the decision, before the other parties know it.
func (c *cluster) decide(x *pending) error {
	c.forget(x)
	var answer meta.Result
	from := c.pick(len(x.parties))
	parties := slices.Concat(x.parties[from:], x.parties[:from])
	for i, party := range parties {
		p := c.partitions[party]
		p.executed++
		r, err := each(p, func(m *meta.Machine) meta.Result { return m.Decide(x.number, c.shuffled(x.votes), p.executed) })
		switch {
		case err != nil:
			return fmt.Errorf("%+v: %w", x.command, err)
		case i == 0:
			answer = r
			err = c.outcome(x, r)
		case r.Code != answer.Code:
			err = fmt.Errorf("%+v: partition %d comes to %v, partition %d to %v", x.command, parties[0], answer.Code, party, r.Code)
		}
		if err == nil && c.chance(6) {
			err = p.restart(c.pick(replicaCount))
		}
		if err == nil && c.chance(3) {
			err = c.amid(x, parties[:i+1])
		}
		if err == nil && c.chance(3) {
			err = c.deliver(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abort aborts x, before or after all parties have voted.
func (c *cluster) abort(x *pending) error {
	c.forget(x)
	c.aborted++
	c.again = append(c.again, x.asked)
	for _, party := range x.parties {
		p := c.partitions[party]
		p.relayed = slices.DeleteFunc(p.relayed, func(other *pending) bool { return other == x })
		if _, err := each(p, func(m *meta.Machine) []uint64 { m.Abort(x.number); return m.Undecided() }); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) forget(x *pending) {
	c.undecided = slices.DeleteFunc(c.undecided, func(other *pending) bool { return other == x })
}

// again reports whether a command must be tried again.
func again(code posix.Code) bool { return code == posix.EREMOTE || code == posix.EHELD }

// outcome records and checks the outcome of x.
func (c *cluster) outcome(x *pending, r meta.Result) error {
	if again(r.Code) {
		c.decided[0]++
		c.again = append(c.again, x.asked)
		return nil
	}
	c.decided[1]++
	if len(x.refusals) == 0 {
		return c.answered(x.asked, r, x.disturbed)
	}
	aboveIt := r.Code == posix.EISDIR && slices.Contains(x.refusals, posix.ENOTEMPTY) // as in compare
	if r.Code == posix.OK || !slices.Contains(x.refusals, r.Code) && c.model.try(x.asked) != r.Code && !aboveIt {
		return fmt.Errorf("%+v: %v, after it was refused with some of %v", x.asked, r.Code, x.refusals)
	}
	return nil
}

func (c *cluster) shuffled(votes [][]byte) [][]byte {
	votes = append([][]byte(nil), votes...)
	i := c.pick(len(votes))
	votes[0], votes[i] = votes[i], votes[0]
	return votes
}
