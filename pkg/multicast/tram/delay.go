package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Delay is a group for which messages wait. TRAM is not genuine within its tree: a message passes all groups
// on the paths from its lca to its destinations. So a group that does not work delays messages that are not
// for it.
type Delay struct {
	Group   multicast.GroupID
	Waiting int           // messages at this process or its group that the group has not ordered
	Passing int           // those of Waiting with destinations below the group and not in it
	For     time.Duration // since the group last ordered a message
	Full    bool          // so many messages wait that the group of this process stops ordering messages for that group
}

// Delays returns the groups for which messages wait: groups to which this process multicasts, and children of
// its group. The delay of a child stands for its subtree, because all messages to the subtree pass the child.
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

// add adds the waiting entries of a flow.
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
