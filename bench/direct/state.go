package direct

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// record returns the record of a proposal in the log.
func (k *kept) record(dest []multicast.GroupID) []byte {
	return appendKept(appendDest([]byte{kindData}, dest), k)
}

// Checkpoint implements order.Core.
func (c *Core) Checkpoint() []byte {
	b := varint.AppendUint([]byte{kindCheckpoint}, c.sent)
	for _, l := range c.lanes {
		b = varint.AppendUint(appendDest(b, l.dest), l.last)
		b = varint.AppendUint(b, uint64(len(l.kept)))
		for i := range l.kept {
			b = appendKept(b, &l.kept[i])
		}
	}
	return b
}

// Replay implements multicast.Core.
func (c *Core) Replay(record []byte) error {
	r := varint.NewReader(record)
	switch r.Uint8() {
	case kindData:
		dest, k := readDest(r), readKept(r)
		if r.Done() == nil {
			l := c.lane(dest)
			l.last, l.kept, c.sent = k.number, append(l.kept, k), max(c.sent, k.seq)
			return nil
		}
	case kindCheckpoint:
		c.sent, c.lanes = r.Uint64(), nil
		for r.Len() > 0 && r.Err() == nil {
			l := c.lane(readDest(r))
			l.last = r.Uint64()
			for n := r.Count(); n > 0 && r.Err() == nil; n-- {
				l.kept = append(l.kept, readKept(r))
			}
		}
		if r.Err() == nil {
			return nil
		}
	}
	return fmt.Errorf("direct: record of %d bytes: %w", len(record), varint.ErrMalformed)
}

// State implements multicast.Transferable: a process needs nothing of another one but the state machine's
// progress.
func (c *Core) State() []byte { return c.delivered.Append(nil) }

// Adopt implements multicast.Transferable. The process goes on with its own lanes, and with the deliveries of
// the other.
func (c *Core) Adopt(state []byte) (record []byte, at multicast.Progress, err error) {
	if at, err = multicast.DecodeProgress(state); err != nil {
		return nil, nil, fmt.Errorf("direct: state of %d bytes: %w", len(state), err)
	}
	if !at.Covers(c.covered) {
		return nil, nil, fmt.Errorf("direct: the state has less than this process holds: ask another member, or later")
	}
	return c.Checkpoint(), at, nil
}
