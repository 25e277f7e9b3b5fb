package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Delay says that messages wait for a group. TRAM is not genuine inside its tree: a message passes all groups
// on the ways from its lca to its destinations, and so a group that hangs holds up messages that are not for
// it.
type Delay struct {
	Group   multicast.GroupID
	Waiting int           // messages that this process or its group has for the group, and that it has not ordered
	Passing int           // of them, those that have destinations below the group and not in it
	For     time.Duration // since the group has ordered something
	Full    bool          // so many wait that this process's group orders nothing more that goes there
}

// Delays returns the groups in which messages wait, of the groups to which this process multicasts and the
// children of its group. The delay of a child is that of its subtree: all messages to the subtree pass the
// child.
func (c *Core) Delays() (all []Delay) {
	for _, g := range c.cfg.Groups {
		var d Delay
		if f := c.clients[g.ID]; f != nil {
			d.add(f, c.now)
		}
		if c.tree.groups[g.ID].parent == c.group {
			f := c.child(g.ID)
			d.add(f, c.now)
			d.Full = len(f.entries) >= c.cfg.Keep
		}
		if d.Group = g.ID; d.Waiting > 0 {
			all = append(all, d)
		}
	}
	return all
}

// add counts the entries of a flow.
func (d *Delay) add(f *flow, now time.Duration) {
	for i, slot := range f.entries {
		content, _, _ := unseal(slot, f.taken+uint64(i)+1)
		if m, ok := decodeMessage(content); ok && !m.To(f.to.ID) {
			d.Passing++
		}
	}
	if d.Waiting += len(f.entries); len(f.entries) > 0 {
		d.For = max(d.For, now-f.since)
	}
}
