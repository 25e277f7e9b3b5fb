package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
)

// moveHere executes a Move whose inode and target are in this partition: there is nothing to do.
func (m *Machine) moveHere(c *Command) Result {
	n, code := m.inode(c.Child)
	switch {
	case code == posix.EREMOTE:
		return elsewhere(c.Child, m.likelyPartition(c.Child))
	case code != posix.OK:
		return failed(code)
	case c.Target != m.cfg.Partition:
		return elsewhere(c.Child, m.cfg.Partition)
	}
	return Result{Attr: n.Attr, Number: uint64(m.cfg.Partition)}
}

// act executes this partition's part of the outcome of a command of several partitions.
func (m *Machine) act(c *Command, o *outcome, counter uint64) Result {
	c.Time, m.now = o.time, o.time
	s, here := o.scene, m.cfg.Partition
	for _, n := range []*sight{&s.from, &s.to, &s.moved, &s.replaced} {
		if n.in(here) {
			var code posix.Code
			n.inode, code = m.inode(n.Ino)
			invariant.Check(code == posix.OK, "inode %d was held and is gone: %v", n.Ino, code)
		}
	}
	r := Result{Number: uint64(s.moved.partition)}
	switch c.Op {
	case OpLink:
		r.Attr = m.applyLink(c, s).Attr
	case OpUnlink, OpRmdir:
		r.Attr = m.applyRemove(c, s, counter).Attr
	case OpRename:
		return m.actRename(c, o, counter)
	case OpMove:
		r.Attr = s.moved.Attr
		if o.moving != nil {
			m.relocate(c, o.moving, s.moved.in(here))
			r.Number = uint64(c.Target)
		}
	case OpPlace:
		if s.from.in(here) {
			m.placeHere(c)
		}
		if here == tablePartition {
			m.placeTable(c)
		}
		return Result{Attr: s.from.Attr, Number: uint64(s.from.partition)}
	}
	return r
}

func (m *Machine) actRename(c *Command, o *outcome, counter uint64) Result {
	s, at := o.scene, o.scene.moved.partition
	wasHere := s.moved.in(m.cfg.Partition)
	if o.moving != nil {
		at = c.Target
		o.moving.inode.changed(c.Time)
		m.relocate(c, o.moving, wasHere)
		s.moved.partition = at
		s.moved.inode = o.moving.inode
	}
	r := m.applyRename(c, s, at, counter)
	if o.task && wasHere {
		if _, own := m.rule(c.Child); !own {
			m.addTask(c.Child, c.Target)
		}
	}
	r.Number = uint64(at)
	return r
}

// relocate executes this partition's part of moving an inode to c.Target: at the partition that it leaves, at
// the partition where it arrives, and at its home.
func (m *Machine) relocate(c *Command, x *exported, leaves bool) {
	if leaves {
		m.depart(x)
	}
	if c.Target == m.cfg.Partition {
		m.storeExported(x)
	}
	m.forward(x.inode.Ino, c.Target)
}
