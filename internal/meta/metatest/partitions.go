package metatest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Partitions of one tree that RunPartitions tests, and the replicas of each.
const (
	partitionCount = 3
	replicaCount   = 2
)

// partition is the replicas of a partition, which execute the same things.
type partition struct {
	cfg      meta.Config
	stores   [replicaCount]Store
	replicas [replicaCount]*meta.Machine
	relayed  []*pending // ordered between partitions, and not prepared here yet
	executed uint64     // counter of what changed it
}

// pending is a command over several partitions on its way.
type pending struct {
	number    uint64
	asked     *meta.Command // as the generator made it
	command   meta.Command
	parties   []uint16
	last      uint16 // the party at which it was relayed last: its time counts
	votes     [][]byte
	disturbed bool         // something else was executed since the first vote
	refusals  []posix.Code // of parties that refused it alone, and what the model said then
}

// cluster is the partitions of a tree, and the model of that tree.
type cluster struct {
	generator
	partitions [partitionCount]*partition
	real       map[posix.Ino]posix.Ino // numbers of the model -> of the partitions
	known      map[posix.Ino]posix.Ino // and back
	over       bool                    // source has ended
	undecided  []*pending
	again      []*meta.Command // met what another command held
	calm       bool            // nothing is aborted
	counter    uint64          // of the model
	ordered    uint64          // commands over several partitions
	decided    [2]uint64       // of these: refused because of others; executed
	aborted    uint64          // commands over several partitions
	elsewhere  uint64          // things made in another partition than their directory
	failed     error           // of a query
	collected  uint64          // blocks
}

// Reach says how much of what was tried happened.
type Reach struct {
	Updates          uint64
	Decided, Refused uint64 // commands over several partitions
	Aborted          uint64
	Elsewhere        uint64 // things made in another partition than their directory
	Collected        uint64 // blocks that were dropped
}

// RunPartitions drives several partitions and the model of the one tree that they make with the same random commands,
// until source ends. fresh makes a store. Commands over several partitions are prepared and decided while others
// are executed, and replicas start again from their stores. The first difference is the error.
func RunPartitions(source Source, fresh func() Store) (Reach, error) {
	c, err := newCluster(source, fresh)
	for err == nil && !c.over {
		if err = c.step(); err == nil {
			err = c.failed
		}
	}
	if err == nil {
		err = c.finish()
	}
	reach := Reach{Updates: c.counter, Refused: c.decided[0], Decided: c.decided[1], Aborted: c.aborted, Elsewhere: c.elsewhere, Collected: c.collected}
	if err != nil {
		return reach, fmt.Errorf("update %d: %w", c.counter, err)
	}
	return reach, nil
}

func newCluster(source Source, fresh func() Store) (*cluster, error) {
	first := meta.Config{Time: Config.Time}
	for p := uint16(1); p < partitionCount; p++ {
		first.Genesis = append(first.Genesis, meta.Birth{Name: fmt.Sprint("partition", p), Ino: posix.MakeIno(p, 1)})
	}
	c := &cluster{real: map[posix.Ino]posix.Ino{}, known: map[posix.Ino]posix.Ino{}}
	c.generator = generator{source: c.endless(source), model: NewModel(first, map[posix.BlockID][]byte{}), time: Config.Time, once: true}
	for i := range c.partitions {
		p := &partition{cfg: meta.Config{Partition: uint16(i), Time: Config.Time}}
		if c.partitions[i] = p; i == 0 {
			p.cfg = first
		}
		if i > 0 {
			c.model.addRoot(posix.MakeIno(uint16(i), 1), Config.Time)
		}
		c.pair(posix.MakeIno(uint16(i), 1), posix.MakeIno(uint16(i), 1))
		for r := range p.replicas {
			p.stores[r] = fresh()
			if err := p.restart(r); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// endless goes on when source ends, for what is still to be done then.
func (c *cluster) endless(source Source) Source {
	state := uint32(1)
	return func(n int) (int, bool) {
		if !c.over {
			if choice, ok := source(n); ok {
				return choice, true
			}
			c.over = true
		}
		state = state*1664525 + 1013904223
		return int(state>>8) % n, true
	}
}

// restart makes a replica again from its store.
func (p *partition) restart(r int) (err error) {
	p.replicas[r], err = meta.New(p.stores[r], p.cfg)
	return err
}

// each does the same at all replicas, which must give the same.
func each[T any](p *partition, do func(m *meta.Machine) T) (T, error) {
	first := do(p.replicas[0])
	for _, m := range p.replicas[1:] {
		if other := do(m); !reflect.DeepEqual(first, other) {
			return first, fmt.Errorf("replicas of partition %d give %+v and %+v", p.cfg.Partition, first, other)
		}
	}
	return first, nil
}

// apply executes c at a partition, as it comes out of the codec.
func (p *partition) apply(c *meta.Command) (meta.Result, error) {
	p.executed++
	encoded := c.Append(nil)
	var bad error
	r, err := each(p, func(m *meta.Machine) meta.Result {
		decoded, err := meta.DecodeCommand(encoded)
		if err != nil {
			bad = fmt.Errorf("%+v: %w", c, err)
			return meta.Result{}
		}
		decoded.Session = writer
		return m.Apply(&decoded, p.executed)
	})
	if bad != nil {
		err = bad
	}
	return r, err
}

func (c *cluster) step() error {
	switch {
	case c.chance(40):
		return c.partition().restart(c.pick(replicaCount))
	case c.chance(20):
		return c.reap()
	case c.chance(20):
		return c.collect()
	case c.chance(8):
		return c.deliver(c.partition())
	case c.chance(4):
		return c.ask()
	case c.chance(3) && len(c.undecided) > 0:
		return c.advance()
	case len(c.again) > 0 || len(c.undecided) > 5:
		return c.settle()
	}
	u := c.next()
	if len(c.undecided) > 0 && c.chance(2) {
		c.collide(u, c.undecided[c.pick(len(c.undecided))])
	}
	return c.begin(u)
}

func (c *cluster) partition() *partition { return c.partitions[c.pick(partitionCount)] }

// advance lets an undecided command do one more step.
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

// prepare does what is next in the order between partitions at p.
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

// refused takes note that a party refuses x alone: so must the model, now, since nothing is held for it to stay so. Unless the code is final,
// the client may have been wrong about what names name.
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

// isNamed reports whether the names of x name what its client has found.
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

// settle finishes all commands, and tries again those that met others.
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

// alone executes u when nothing is in its way.
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
		if err := c.deliverAll(); err != nil { // it may wait for numbers, or for an inode to be made
			return err
		}
	}
	return fmt.Errorf("%+v comes to no end", u)
}

// decide tells all parties the votes, in any order. What was decided at some may be built upon there before
// the others know.
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

// abort ends x before all parties have voted, or after that.
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

// again reports whether a command is to be tried again.
func again(code posix.Code) bool { return code == posix.EREMOTE || code == posix.EHELD }

// outcome takes note of what x came to.
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

// deliver sends posts of p, sometimes twice, and sometimes it does not learn that they have come: then they are sent again.
func (c *cluster) deliver(p *partition) error {
	to, err := each(p, func(m *meta.Machine) []uint16 { return m.Destinations() })
	if err != nil || len(to) == 0 {
		return err
	}
	for range 1 + c.pick(2) {
		if err := c.deliverTo(p, to[c.pick(len(to))], 1+c.pick(4), c.chance(3)); err != nil {
			return err
		}
	}
	return nil
}

// deliverTo sends the oldest posts of p to one partition.
func (c *cluster) deliverTo(p *partition, to uint16, limit int, lost bool) error {
	posts, err := each(p, func(m *meta.Machine) []meta.Post { return m.Outbox(to, limit) })
	if err != nil || len(posts) == 0 {
		return err
	}
	commands := make([]meta.Command, len(posts))
	for i := range posts {
		commands[i] = posts[i].Command
	}
	other := c.partitions[to]
	other.executed++
	upTo, err := each(other, func(m *meta.Machine) uint64 {
		return m.ExecutePosts(p.cfg.Partition, posts[0].Number, commands, c.time, other.executed)
	})
	if last := posts[len(posts)-1].Number; err == nil && upTo < last {
		err = fmt.Errorf("posts of partition %d to %d: up to %d were executed, the last was %d", p.cfg.Partition, to, upTo, last)
	}
	if err != nil || lost {
		return err
	}
	_, err = each(p, func(m *meta.Machine) []uint16 { m.Posted(to, upTo); return m.Destinations() })
	return err
}

// awaited has the inodes made that are reserved in a partition.
func (c *cluster) awaited(to uint16) error {
	for range 1000 {
		left := 0
		for _, p := range c.partitions {
			left += len(p.replicas[0].Outbox(to, 1))
			if err := c.deliverTo(p, to, 100, false); err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
	}
	return fmt.Errorf("the outboxes to partition %d do not get empty", to)
}

// deliverAll empties the outboxes.
func (c *cluster) deliverAll() error {
	for range 1000 {
		empty := true
		for to, p := range c.partitions {
			empty = empty && len(p.replicas[0].Destinations()) == 0
			if err := c.awaited(uint16(to)); err != nil {
				return err
			}
		}
		if empty {
			return nil
		}
	}
	return fmt.Errorf("the outboxes do not get empty")
}

// reap lets an orphan go that its home knows.
func (c *cluster) reap() error {
	p := c.partition()
	orphans := p.replicas[0].Orphans(0, 8)
	if len(orphans) == 0 || len(c.undecided)+len(c.again) > 0 {
		return nil
	}
	ino := orphans[c.pick(len(orphans))].Ino
	known, ok := c.known[ino]
	if _, lost := c.model.lost[known]; !ok || !lost {
		return fmt.Errorf("partition %d takes inode %d for an orphan, the model does not", p.cfg.Partition, ino)
	}
	c.model.Reap(known)
	_, err := each(p, func(m *meta.Machine) bool { m.Reap(ino, c.time); return true })
	return err
}

// collect deletes some of the blocks that a partition has dropped, while their homes may not know yet. Sometimes the same are
// deleted twice.
func (c *cluster) collect() error {
	p, ask := c.partition(), queueOf(c.pick(5), c.time)
	r, err := each(p, func(m *meta.Machine) meta.Result { return m.Query(ask) })
	if err != nil {
		return err
	}
	_, dropped, err := meta.DecodeQueue(r.Data)
	if err != nil {
		return err
	}
	c.collected += uint64(len(dropped))
	for range 1 + c.pick(2) {
		if _, err := p.apply(c.model.collect(dropped)); err != nil {
			return err
		}
	}
	return nil
}

// finish compares everything once all is done.
func (c *cluster) finish() error {
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.deliverAll(); err != nil {
		return err
	}
	var all []meta.Keys
	for i, p := range c.partitions {
		var states [replicaCount]bytes.Buffer
		for r := range p.stores {
			if err := meta.Snapshot(p.stores[r], &states[r]); err != nil {
				return err
			}
		}
		if !bytes.Equal(states[0].Bytes(), states[1].Bytes()) {
			return fmt.Errorf("the replicas of partition %d differ", i)
		}
		if problems := meta.Check(p.stores[0]); len(problems) > 0 {
			return fmt.Errorf("partition %d: %q", i, problems)
		}
		all = append(all, p.stores[0])
	}
	if problems := meta.CheckAll(all); len(problems) > 0 {
		return fmt.Errorf("all partitions: %q", problems)
	}
	if err := c.sameOrphans(); err != nil {
		return err
	}
	return c.model.sameTree(c)
}

// sameOrphans compares what the homes take for orphans with those of the model.
func (c *cluster) sameOrphans() error {
	found := 0
	for _, p := range c.partitions {
		for _, o := range p.replicas[0].Orphans(0, 1<<20) {
			if _, lost := c.model.lost[c.known[o.Ino]]; !lost {
				return fmt.Errorf("inode %d is no orphan", o.Ino)
			}
			found++
		}
	}
	if want := len(c.model.lost); found != want {
		return fmt.Errorf("%d orphans are known, want %d", found, want)
	}
	return nil
}
