package cross

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
)

// Awaits reports whether a query or an update of a reader must wait: for an undecided command that touches
// its objects and that the reader may have seen committed elsewhere, or that the state here follows from; or
// for the post that makes its inode.
func (c *Commands) Awaits(reader ask.Seen, command *meta.Command) bool {
	if c.machine.Awaits(command) {
		return true
	}
	for _, x := range c.list {
		if x.phase == voted && (x.marked || reader.IsOpen(x.place)) && c.machine.Touches(x.number, command) {
			return true
		}
	}
	return false
}

// Barrier returns the numbers of the commands that may be committed elsewhere already: a linearizable read
// that was asked before waits for those that touch its objects.
func (c *Commands) Barrier() (numbers []uint64) {
	for _, x := range c.list {
		if x.phase == voted {
			numbers = append(numbers, x.number)
		}
	}
	return numbers
}

// AwaitsAny reports whether one of the commands is undecided still, and touches the objects of c.
func (c *Commands) AwaitsAny(numbers []uint64, command *meta.Command) bool {
	for _, n := range numbers {
		if c.machine.Touches(n, command) {
			return true
		}
	}
	return false
}

// Changed reports, once, whether a command was prepared, decided or marked since the last call: waiting reads
// and updates are then to be looked at again.
func (c *Commands) Changed() bool {
	changed := c.changed
	c.changed = false
	return changed
}
