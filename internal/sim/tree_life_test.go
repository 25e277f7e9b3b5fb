package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// live runs the whole life of a client.
func (c *treeClient) live() {
	if c.run.script != nil && c.id > 0 {
		return
	}
	for p := range treeGroups {
		c.openSession(uint16(p))
	}
	if c.run.script != nil {
		c.run.script(c)
		return
	}
	if c.run.holders != nil {
		c.run.holders.live(c)
		return
	}
	if c.id == 0 {
		c.prepare()
	}
	c.ready = true
	for !c.run.clients[0].ready {
		c.pause(50 * time.Millisecond)
	}
	c.run.clients[0].tell(c)
	for i := range c.run.work {
		c.operate()
		if i%6 == c.id || c.renewsNow() {
			c.renew()
		}
	}
	c.settle()
}

// prepare makes a directory in each partition; the children of some are spread.
func (c *treeClient) prepare() {
	for p := range uint16(len(treeGroups)) {
		dir := c.make(posix.MakeIno(p, 1), treeNames[p], posix.TypeDir|0o755)
		if p == 2 || dir == 0 {
			continue
		}
		c.place(dir)
	}
}

// settle releases all and checks the end of all files, until all unheld orphans are reaped.
func (c *treeClient) settle() {
	c.worked, c.held = true, nil
	for slices.ContainsFunc(c.run.clients, func(o *treeClient) bool { return !o.worked }) || !c.run.net.healed {
		c.pause(200 * time.Millisecond)
	}
	for range 4 {
		for p := range uint16(len(c.run.groups)) {
			command := meta.Command{Op: meta.OpGetAttr, Ino: posix.MakeIno(p, 1)}
			c.exchange(p, ask.Request{Kind: ask.Query, Fresh: true, Command: command.Append(nil)})
		}
		c.renew()
		c.pause(3 * time.Second)
	}
	if c.rested = true; c.id == 0 && c.run.blocks {
		c.collectAll()
	}
}

type treeOperation struct {
	weight int
	do     func(c *treeClient)
}

// treeOperations are the operations of clients, with their frequencies.
var treeOperations = []treeOperation{
	{4, func(c *treeClient) { c.make(c.dir(), c.name(), posix.TypeRegular|0o644) }},
	{3, func(c *treeClient) { c.make(c.dir(), c.name(), posix.TypeDir|0o755) }},
	{4, (*treeClient).write},
	{1, (*treeClient).chmod},
	{2, func(c *treeClient) { c.remove(c.dir(), c.name(), meta.OpUnlink) }},
	{2, func(c *treeClient) { c.remove(c.dir(), c.name(), meta.OpRmdir) }},
	{3, (*treeClient).link},
	{9, (*treeClient).rename},
	{2, (*treeClient).duel},
	{3, (*treeClient).move},
	{1, func(c *treeClient) { c.place(c.dir()) }},
	{2, func(c *treeClient) { c.readdir(c.dir()) }},
	{2, (*treeClient).read},
	{1, func(c *treeClient) { c.lookup(c.dir(), c.name()) }},
	{1, (*treeClient).scratch},
	{1, (*treeClient).open},
	{1, (*treeClient).letGo},
	{1, func(c *treeClient) { c.tell(c.run.clients[c.pick(len(c.run.clients))]) }},
}

// operate does one operation.
func (c *treeClient) operate() {
	c.accept()
	total, operations := 0, treeOperations
	if c.run.blocks {
		operations = slices.Concat(operations, treeBlockOperations)
	}
	for _, o := range operations {
		total += o.weight
	}
	choice := c.pick(total)
	for _, o := range operations {
		if choice < o.weight {
			o.do(c)
			return
		}
		choice -= o.weight
	}
}
