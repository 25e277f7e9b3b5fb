package cross

import (
	"github.com/globalfs/globalfs/internal/ask"
)

// sealed is what may leave the partition: the state as of a durable entry. It is soft: after a restart,
// nothing is sealed until the next durable entry is executed.
type sealed struct {
	vector ask.Vector // of the state at the newest durable entry; nil: none was executed since the start
	now    bool       // the entry that is being executed is durable
	wanted bool       // something waits that is newer
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

// proposeSeal has an entry ordered behind what waits, unless a durable entry of this replica is on its way:
// that one is ordered behind it too, as everything that waits was executed.
func (c *Commands) proposeSeal() {
	if c.sealed.wanted && !c.orders.Pending(c.sealing) {
		c.proposeEntry(EntrySeal, nil)
	}
	c.sealed.wanted = false
}
