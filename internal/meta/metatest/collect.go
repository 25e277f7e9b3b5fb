package metatest

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// queueOf returns a query for the oldest blocks in a queue that were dropped before a time.
func queueOf(limit int, before posix.Time) *meta.Command {
	return &meta.Command{Op: meta.OpQueue, Length: uint64(limit), Time: before}
}

// collect deletes dropped blocks, which no file of the model contains, from the block store of the model. It
// returns the OpCollected that reports the deletion.
func (m *Model) collect(dropped []meta.Dropped) *meta.Command {
	c := &meta.Command{Op: meta.OpCollected}
	for _, d := range dropped {
		delete(m.blocks, d.ID)
		c.Blocks = append(c.Blocks, meta.Block{ID: d.ID})
	}
	return c
}
