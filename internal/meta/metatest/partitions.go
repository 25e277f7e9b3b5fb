package metatest

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// The numbers of the partitions in RunPartitions, and of the replicas of each.
const (
	partitionCount = 3
	replicaCount   = 2
)

// partition has the replicas of a partition, which execute the same commands.
type partition struct {
	cfg      meta.Config
	stores   [replicaCount]Store
	replicas [replicaCount]*meta.Machine
	relayed  []*pending // commands that are ordered between partitions, and not prepared here yet
	executed uint64     // counter of the updates of this partition
}

// cluster has the partitions of a tree, and the model of this tree.
type cluster struct {
	generator
	partitions [partitionCount]*partition
	real       map[posix.Ino]posix.Ino // by inode number of the model: the number in the partitions
	known      map[posix.Ino]posix.Ino // by inode number of the partitions: the number in the model
	over       bool                    // source has ended
	undecided  []*pending
	again      []*meta.Command // commands that have met a hold of another command
	calm       bool            // no command is aborted
	counter    uint64          // counter of the updates of the model
	ordered    uint64          // number of ordered commands over several partitions
	decided    [2]uint64       // numbers of them: refused because of other commands; executed
	aborted    uint64          // number of aborted commands over several partitions
	elsewhere  uint64          // number of inodes made in another partition than their directory
	failed     error           // the error of a query
	collected  uint64          // number of collected blocks
}

// Reach counts the outcomes of a run.
type Reach struct {
	Updates          uint64
	Decided, Refused uint64 // commands over several partitions
	Aborted          uint64
	Elsewhere        uint64 // inodes made in another partition than their directory
	Collected        uint64 // blocks that were dropped and collected
}

// RunPartitions drives several partitions and the model of the one tree that they make with the same random
// commands, until source ends. fresh makes a store. Commands over several partitions are prepared and decided
// while others are executed, and replicas start again from their stores. The first difference is the error.
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

// endless returns a source that does not end, for the work that remains when source has ended.
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

// restart creates a replica again from its store.
func (p *partition) restart(r int) (err error) {
	p.replicas[r], err = meta.New(p.stores[r], p.cfg)
	return err
}

// each calls do for all replicas, which must return the same result.
func each[T any](p *partition, do func(m *meta.Machine) T) (T, error) {
	first := do(p.replicas[0])
	for _, m := range p.replicas[1:] {
		if other := do(m); !reflect.DeepEqual(first, other) {
			return first, fmt.Errorf("replicas of partition %d give %+v and %+v", p.cfg.Partition, first, other)
		}
	}
	return first, nil
}

// apply encodes and decodes c, and executes it at a partition.
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

// finish compares the whole states at the end.
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

// sameOrphans compares the orphans that the homes know with those of the model.
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
