package cross

import (
	"github.com/globalfs/globalfs/internal/ask"
)

// sealed is the state that may leave the partition: as of a durable entry (D2, D3). It is soft: after a
// restart, nothing is sealed until the next durable entry is executed.
type sealed struct {
	vector ask.Vector // of the state at the newest durable entry; nil: none was executed since the start
	now    bool       // the entry that is being executed is durable
	wanted bool       // a message waits for a newer one
}

// seal notes that the state may leave: the entry that has brought it about is durable.
func (c *Commands) seal() {
	c.sealed.vector, c.sealed.now = c.vector.Clone(), false
	for _, to := range c.machine.Destinations() {
		channelOf(c.posting.to, to).sealed = c.machine.LastPost(to)
	}
	c.hurry()
}

// isSealed reports whether there is a sealed vector for a message. If not, one is asked for.
func (c *Commands) isSealed() bool {
	c.sealed.wanted = c.sealed.wanted || c.sealed.vector == nil
	return c.sealed.vector != nil
}

// isUpToDate reports whether all of the present state may leave.
func (c *Commands) isUpToDate() bool {
	return c.sealed.vector != nil && c.sealed.vector.Of(c.cfg.Partition).Count == c.Count()
}

// proposeSeal has a durable entry ordered if a message waits for one. A durable entry of this replica that is
// not delivered yet does as well: the entries that the message follows from are executed, and so before it.
func (c *Commands) proposeSeal() {
	if c.sealed.wanted && !c.orders.Pending(c.sealing) {
		c.proposeEntry(EntrySeal, nil)
	}
	c.sealed.wanted = false
}
