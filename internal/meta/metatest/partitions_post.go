package metatest

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
)

// deliver sends posts of p, sometimes twice. Sometimes p does not learn of their execution, and sends them
// again.
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

// awaited delivers all posts to a partition, so that it creates the inodes with reserved numbers.
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

// reap removes an orphan that its home knows.
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

// collect deletes some of the blocks that a partition has dropped, perhaps before their homes know this.
// Sometimes it deletes the same blocks twice.
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
