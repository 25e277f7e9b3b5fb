package sim

import (
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// rename gives an inode another name, mostly in another directory.
func (c *treeClient) rename() {
	command := meta.Command{Op: meta.OpRename, Ino: c.dir(), Name: c.name(), NewParent: c.dir(), NewName: c.name()}
	switch c.pick(6) {
	case 0:
		command.Flags = meta.RenameNoReplace
	case 1:
		command.Flags = meta.RenameExchange
	}
	c.renameBy(command)
}

// renameBy does a rename.
func (c *treeClient) renameBy(command meta.Command) {
	c.persist(func(try int) (meta.Result, bool) {
		if try == 0 && c.at(command.Ino) == c.at(command.NewParent) {
			return c.update(c.at(command.Ino), command), true
		}
		r, ok := c.planRename(command)
		switch {
		case !ok:
			return meta.Result{}, false
		case r == nil:
			return meta.Result{Code: posix.EREMOTE}, true
		}
		c.careless(r)
		m := c.update(r.dest[0], r.command, r.dest...)
		c.markRename(r, m)
		return m, true
	})
}

// duel makes two directories with one child each, in two partitions. It moves the first directory into the
// child of the second, while another client does the opposite: one of these renames must fail.
func (c *treeClient) duel() {
	top := [2]posix.Ino{posix.MakeIno(uint16(c.pick(3)), 1), posix.MakeIno(uint16(c.pick(3)), 1)}
	name := [2]string{c.name(), c.name()}
	var inner [2]posix.Ino
	for i := range top {
		outer := c.makeOrFind(top[i], name[i])
		if inner[i] = c.makeOrFind(outer, c.name()); inner[i] == 0 {
			return
		}
	}
	into := func(i int) meta.Command {
		return meta.Command{Op: meta.OpRename, Ino: top[i], Name: name[i], NewParent: inner[1-i], NewName: c.name()}
	}
	if c.run.challenge == nil {
		c.run.challenge, c.run.challenger = new(meta.Command), c
		*c.run.challenge = into(1)
	}
	c.renameBy(into(0))
}

// accept does the other half of a duel, if there is one.
func (c *treeClient) accept() {
	if command := c.run.challenge; command != nil && c.run.challenger != c {
		c.run.challenge = nil
		c.renameBy(*command)
	}
}

// makeOrFind gives the directory with a name, 0 if the name belongs to another kind of inode.
func (c *treeClient) makeOrFind(dir posix.Ino, name string) posix.Ino {
	if dir == 0 {
		return 0
	}
	if ino := c.make(dir, name, posix.TypeDir|0o755); ino != 0 {
		return ino
	}
	if a, ok, again := c.find(dir, name); ok && !again && a.Mode.IsDir() {
		return a.Ino
	}
	return 0
}

// renamePlan is a rename with all facts that the client has looked up.
type renamePlan struct {
	command meta.Command
	dest    []uint16 // the first is asked
	dir     bool
}

// planRename looks up all inodes of a rename. The plan is nil if one has just changed; false if there is
// nothing to rename.
func (c *treeClient) planRename(command meta.Command) (*renamePlan, bool) {
	child, ok, again := c.find(command.Ino, command.Name)
	if !ok || child.Ino == 0 && !again {
		return nil, false
	}
	newChild, ok, againNew := c.find(command.NewParent, command.NewName)
	if !ok {
		return nil, false
	}
	if again || againNew {
		return nil, true
	}
	r := &renamePlan{command: command, dir: child.Mode.IsDir()}
	from, to := c.at(command.Ino), c.at(command.NewParent)
	target := c.ruleOf(command.NewParent, command.NewName)
	r.command.Child, r.command.NewChild, r.command.Target = child.Ino, newChild.Ino, target
	r.dest = []uint16{from, to, target, c.at(child.Ino)}
	if newChild.Ino != 0 {
		r.dest = append(r.dest, c.at(newChild.Ino))
	}
	if !r.dir && child.Nlink == 1 && c.at(child.Ino) != target {
		r.dest = append(r.dest, child.Ino.Partition())
	}
	if command.Ino == command.NewParent {
		return r, true
	}
	if r.dir {
		r.command.Chain = c.chain(command.NewParent, r)
	}
	if newChild.Mode.IsDir() && command.Flags&meta.RenameExchange != 0 {
		r.command.Back = c.chain(command.Ino, r)
	}
	return r, true
}

// careless omits a part of the plan now and then: partitions must notice the omission.
func (c *treeClient) careless(r *renamePlan) {
	switch c.pick(20) {
	case 0:
		r.dest = slices.Delete(r.dest, 1, 1+len(r.dest[1:])/2)
	case 1:
		r.dest = r.dest[:len(r.dest)-1]
	case 2:
		r.command.Chain = r.command.Chain[:len(r.command.Chain)/2]
	case 3:
		r.command.Target = uint16(c.pick(len(treeGroups)))
	}
}

// chain gives dir and each directory above it whose child on the way is in another partition, and adds these
// partitions to the parties.
func (c *treeClient) chain(dir posix.Ino, r *renamePlan) []posix.Ino {
	chain := []posix.Ino{dir}
	for {
		m := c.askAbout(meta.Command{Op: meta.OpChain, Ino: dir})
		if m.Code != posix.OK || m.Attr.Ino == 0 || slices.Contains(chain, m.Attr.Ino) {
			return chain // the rest, if any, has just changed
		}
		dir = m.Attr.Ino
		if _, ok := c.locate(dir); !ok {
			return chain
		}
		chain = append(chain, dir)
		r.dest = append(r.dest, c.at(dir))
	}
}

func (c *treeClient) markRename(r *renamePlan, m meta.Result) {
	parties := slices.Clone(r.dest)
	slices.Sort(parties)
	if len(slices.Compact(parties)) < 2 {
		return
	}
	switch {
	case m.Code == posix.EINVAL:
		c.run.reach[loopRefused]++
	case m.Code == posix.OK:
		c.run.reach[renamedAcross]++
		if r.dir && c.at(r.command.Ino) != c.at(r.command.NewParent) {
			c.run.reach[dirAcross]++
		}
	}
}
