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
	relayed  []*pending  // ordered between partitions, and not prepared here yet
	executed uint64      // counter of what changed it
	reserved []posix.Ino // numbers that the client has
}

// pending is a command over several partitions on its way.
type pending struct {
	number    uint64
	asked     *meta.Command // as the generator made it
	command   meta.Command
	parties   []uint16
	last      uint16 // the party at which it was relayed last: its time counts
	votes     [][]byte
	disturbed bool // something else was executed since the first vote
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
	counter    uint64          // of the model
	ordered    uint64          // commands over several partitions
	decided    [2]uint64       // of these: refused because of others; executed
	voteless   uint64          // of the executed: without votes
	collected  uint64          // blocks
}

// Reach says how much of what was tried happened.
type Reach struct {
	Updates          uint64
	Decided, Refused uint64 // commands over several partitions
	Alone            uint64 // of the decided: something new, without votes
	Collected        uint64 // blocks that were dropped
}

// RunPartitions drives several partitions and the model of the one tree that they make with the same random commands,
// until source ends. fresh makes a store. Commands over several partitions are prepared and decided while others
// are executed, and replicas start again from their stores. The first difference is the error.
func RunPartitions(source Source, fresh func() Store) (Reach, error) {
	c, err := newCluster(source, fresh)
	for err == nil && !c.over {
		err = c.step()
	}
	if err == nil {
		err = c.finish()
	}
	reach := Reach{Updates: c.counter, Refused: c.decided[0], Decided: c.decided[1], Alone: c.voteless, Collected: c.collected}
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
	if len(x.votes) == len(x.parties) {
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
	if x.command.Op == meta.OpMknod && x.command.Child != 0 {
		return c.executeAlone(p, x)
	}
	timed := x.command
	if p.cfg.Partition != x.last {
		timed.Time -= posix.Time(c.pick(3))
	}
	encoded := timed.Append(nil)
	vote, err := each(p, func(m *meta.Machine) []byte {
		decoded, err := meta.DecodeCommand(encoded)
		if err != nil {
			return nil
		}
		return m.Prepare(x.number, &decoded, x.parties)
	})
	x.votes = append(x.votes, vote)
	return err
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

func (c *cluster) forget(x *pending) {
	c.undecided = slices.DeleteFunc(c.undecided, func(other *pending) bool { return other == x })
}

// outcome takes note of what x came to.
func (c *cluster) outcome(x *pending, r meta.Result) error {
	if r.Code == posix.EREMOTE {
		c.decided[0]++
		c.again = append(c.again, x.asked)
		return nil
	}
	c.decided[1]++
	return c.answered(x.asked, r, x.disturbed)
}

func (c *cluster) shuffled(votes [][]byte) [][]byte {
	votes = append([][]byte(nil), votes...)
	i := c.pick(len(votes))
	votes[0], votes[i] = votes[i], votes[0]
	return votes
}

// deliver sends a post of p, sometimes twice: who sends it may stop before it is known to be sent.
func (c *cluster) deliver(p *partition) error {
	out, err := each(p, func(m *meta.Machine) []meta.Post { return m.Outbox(3) })
	if err != nil || len(out) == 0 {
		return err
	}
	post := out[0]
	for range 1 + c.pick(2) {
		for _, to := range []*partition{p, c.partitions[post.To]} {
			if _, err := to.apply(&post.Command); err != nil {
				return err
			}
		}
	}
	_, err = each(p, func(m *meta.Machine) bool { m.Posted(post.Number); return true })
	return err
}

// deliverAll empties the outboxes.
func (c *cluster) deliverAll() error {
	for range 1000 {
		empty := true
		for _, p := range c.partitions {
			empty = empty && len(p.replicas[0].Outbox(1)) == 0
			if err := c.deliver(p); err != nil {
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
