package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// treeNames are all names in a run: few, so that clients conflict.
var treeNames = []string{"a", "b", "c", "d"}

func (c *treeClient) dir() posix.Ino {
	recent := c.dirs[max(0, len(c.dirs)-7):]
	if c.pick(4) == 0 {
		recent = c.dirs[:3]
	}
	return recent[c.pick(len(recent))]
}

// file gives a file or symlink that the client has met, 0 if there is none.
func (c *treeClient) file() posix.Ino {
	if len(c.files) == 0 {
		return 0
	}
	recent := c.files[max(0, len(c.files)-6):]
	return recent[c.pick(len(recent))]
}

func (c *treeClient) name() string { return treeNames[c.pick(len(treeNames))] }

// persist repeats an update until its outcome is final: locks and moves cause another try. plan gives false
// if nothing is left to do.
func (c *treeClient) persist(plan func(try int) (meta.Result, bool)) (meta.Result, bool) {
	for try := 0; ; try++ {
		m, ok := plan(try)
		if !ok || m.Code != posix.EREMOTE && m.Code != posix.EHELD && m.Code != posix.ESTALE {
			return m, ok
		}
		c.backOff(try)
	}
}

// make makes a file or a directory; its number, 0 if that failed.
func (c *treeClient) make(dir posix.Ino, name string, mode posix.Mode) posix.Ino {
	command := meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: mode}
	if mode.IsRegular() {
		command.Flags = meta.Exclusive
	}
	m, ok := c.persist(func(try int) (meta.Result, bool) {
		if try > 0 {
			if _, ok := c.locate(dir); !ok {
				c.forget(dir)
				return meta.Result{}, false
			}
		}
		at := c.at(dir)
		m := c.update(at, command)
		if m.Code == posix.OK && m.Number != uint64(at) {
			c.run.reach[madeAlone]++
			c.learn(m.Attr.Ino, uint16(m.Number))
		}
		return m, true
	})
	if !ok || m.Code != posix.OK {
		return 0
	}
	c.meet(m.Attr)
	return m.Attr.Ino
}

// place sets the partitions where new children of a directory are made.
func (c *treeClient) place(dir posix.Ino) {
	rule := meta.Rule{Spread: []uint16{0, 1, 2}[c.pick(2):], Region: "anywhere"}
	if c.pick(4) == 0 {
		rule = meta.Rule{}
	}
	c.persist(func(try int) (meta.Result, bool) {
		if try > 0 {
			if _, ok := c.locate(dir); !ok {
				c.forget(dir)
				return meta.Result{}, false
			}
		}
		at := c.at(dir)
		return c.update(at, meta.Command{Op: meta.OpPlace, Ino: dir, Data: rule.Append(nil), Target: at}, at, 0), true
	})
}

// write writes a few bytes somewhere, or at the end.
func (c *treeClient) write() {
	ino := c.file()
	if ino == 0 {
		return
	}
	data := fmt.Sprintf("%d:%d;", c.id, len(c.run.history.changes))
	command := meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte(data), Length: uint64(len(data)), Flags: meta.Append}
	if c.pick(3) == 0 {
		command.Flags, command.Offset = 0, uint64(c.pick(30))
	}
	c.change(command)
}

func (c *treeClient) chmod() {
	if ino := c.file(); ino != 0 {
		c.change(meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetMode, Attr: posix.Attr{Mode: posix.Mode(0o600 + c.pick(8))}})
	}
}

// change sends an update of one inode to its partition.
func (c *treeClient) change(command meta.Command) {
	c.persist(func(try int) (meta.Result, bool) {
		if try > 0 {
			if _, ok := c.locate(command.Ino); !ok {
				c.forget(command.Ino)
				return meta.Result{}, false
			}
		}
		return c.update(c.at(command.Ino), command), true
	})
}

// find looks up the inode with a name, and its partition. again: the inode has just moved.
func (c *treeClient) find(dir posix.Ino, name string) (a posix.Attr, ok, again bool) {
	ino, ok := c.lookup(dir, name)
	if !ok || ino == 0 {
		return posix.Attr{}, ok, false
	}
	a, there := c.locate(ino)
	return a, true, !there
}

// remove unlinks or removes a directory. The roots of partitions stay.
func (c *treeClient) remove(dir posix.Ino, name string, op meta.Op) {
	command := meta.Command{Op: op, Ino: dir, Name: name}
	c.persist(func(try int) (meta.Result, bool) {
		if try == 0 {
			return c.update(c.at(dir), command), true
		}
		child, ok, again := c.find(dir, name)
		switch {
		case !ok || child.Ino == 0 && !again:
			return meta.Result{}, false
		case again:
			return meta.Result{Code: posix.EREMOTE}, true
		}
		several := command
		several.Child = child.Ino
		return c.update(c.at(dir), several, c.at(dir), c.at(child.Ino)), true
	})
}

func (c *treeClient) link() {
	ino, dir, name := c.file(), c.dir(), c.name()
	if ino == 0 {
		return
	}
	command := meta.Command{Op: meta.OpLink, Ino: ino, NewParent: dir, NewName: name}
	c.persist(func(try int) (meta.Result, bool) {
		if try > 0 {
			_, there := c.locate(ino)
			if !there {
				c.forget(ino)
				return meta.Result{}, false
			}
			if _, there = c.locate(dir); !there {
				c.forget(dir)
				return meta.Result{}, false
			}
		}
		several := command
		if c.at(ino) != c.at(dir) {
			several.Child = ino
		}
		m := c.update(c.at(dir), several, c.at(dir), c.at(ino))
		if m.Code == posix.OK && several.Child != 0 {
			c.run.reach[linkedAcross]++
		}
		return m, true
	})
}

// move moves an inode to another partition, like the mover of subtrees.
func (c *treeClient) move() {
	ino := c.file()
	if ino == 0 || c.pick(3) == 0 {
		ino = c.dir()
	}
	if ino.Counter() == 1 {
		return
	}
	target := uint16(c.pick(len(treeGroups)))
	if c.at(ino) != ino.Partition() && c.pick(2) == 0 {
		target = ino.Partition()
	}
	c.moveTo(ino, target)
}

func (c *treeClient) moveTo(ino posix.Ino, target uint16) {
	c.persist(func(int) (meta.Result, bool) {
		a, ok := c.locate(ino)
		if !ok || c.at(ino) == target {
			return meta.Result{}, false
		}
		if c.run.blocks && a.Mode.IsRegular() && c.pick(3) == 0 {
			c.copyTo(ino, target)
		}
		from := c.at(ino)
		asked := from
		if c.run.blocks && c.pick(2) == 0 {
			asked = target // this partition may decide first
		}
		m := c.update(asked, meta.Command{Op: meta.OpMove, Child: ino, Target: target}, from, target, ino.Partition())
		if m.Code == posix.OK {
			c.learn(ino, target)
			if target == ino.Partition() {
				c.run.reach[movedHome]++
			} else {
				c.run.reach[movedAway]++
			}
		}
		return m, true
	})
}

// readdir reads a whole directory.
func (c *treeClient) readdir(dir posix.Ino) {
	if _, known := c.listCached(dir); known {
		return
	}
	m := c.askAbout(meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 100})
	for i := range m.Entries {
		e := &m.Entries[i]
		if strings.HasPrefix(e.Name, "p") {
			continue
		}
		c.learn(e.Attr.Ino, e.At)
		c.meet(e.Attr)
	}
	if m.Code == posix.ESTALE {
		c.forget(dir)
	}
}

// read reads a file.
func (c *treeClient) read() {
	if ino := c.file(); ino != 0 {
		c.contentOf(ino)
	}
}

func (c *treeClient) contentOf(ino posix.Ino) meta.Result {
	m := c.askAbout(meta.Command{Op: meta.OpExtents, Ino: ino, Length: 1 << 20})
	if m.Code == posix.ESTALE {
		c.forget(ino)
	}
	c.look(c.at(ino), &m)
	return m
}

// open opens a file.
func (c *treeClient) open() {
	if ino := c.file(); ino != 0 {
		c.hold(ino)
	}
}

// hold keeps a file open: as soon as its home knows, the file stays until it is released. Only the home can
// tell whether the file still existed then.
func (c *treeClient) hold(ino posix.Ino) {
	if slices.Contains(c.held, ino) {
		return
	}
	c.held = append(slices.Clone(c.held), ino)
	c.renew()
	if m := c.query(ino.Partition(), meta.Command{Op: meta.OpGetAttr, Ino: ino}); m.Code == posix.ESTALE {
		c.held = slices.DeleteFunc(slices.Clone(c.held), func(i posix.Ino) bool { return i == ino })
		c.forget(ino)
	}
}

// scratch makes a file that lives only as long as it is open, maybe away from its home.
func (c *treeClient) scratch() {
	dir, name := c.dir(), c.name()
	ino := c.make(dir, name, posix.TypeRegular|0o644)
	if ino == 0 {
		return
	}
	if c.pick(2) == 0 {
		c.moveTo(ino, uint16(c.pick(len(treeGroups))))
	}
	c.hold(ino)
	c.remove(dir, name, meta.OpUnlink)
}

// letGo reads a file that is held open and closes it.
func (c *treeClient) letGo() {
	if len(c.held) == 0 {
		return
	}
	ino := c.held[0]
	m := c.contentOf(ino)
	lost := c.look(c.at(ino), &m)
	if m.Code != posix.OK || len(lost) > 0 {
		c.renew() // its session may have expired
	}
	still := slices.Contains(c.held, ino)
	for _, i := range lost {
		c.run.stores.missing[i].open = still
	}
	switch {
	case m.Code != posix.OK && still && !c.run.power:
		c.stop("a file that is held open, %d: %v", ino, m.Code)
	case m.Code == posix.OK && m.Attr.Nlink == 0:
		c.run.reach[heldUnlinked]++
	}
	c.held = slices.DeleteFunc(slices.Clone(c.held), func(i posix.Ino) bool { return i == ino })
}
