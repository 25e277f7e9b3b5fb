package tram

import (
	"bytes"
	"fmt"
	"math"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of records.
const (
	recordVow        = 1 + iota // promised, the life it was granted to, own life, losses
	recordEntry                 // number, timestamp and slot of an entry that this process holds
	recordCheckpoint            // the whole state
)

// vote is an entry that this process holds and that is not known to be decided.
type vote struct {
	ts   uint32
	slot []byte // encoded with timestamp 0
}

// journal is the log on disk as the core sees it.
type journal struct {
	records  [][]byte // of this step
	written  int      // bytes since the last checkpoint
	limit    int      // value of written at which the next checkpoint is due
	life     uint32   // the latest life in the log
	replayed []*entry // the entries of a checkpoint
}

func (j *journal) record(b []byte) {
	j.records = append(j.records, b)
	j.written += len(b)
}

// vow records the promise of this process, and its knowledge of losses.
func (c *durable) vow() {
	if c.cfg.Sync && c.started {
		c.log.record(c.appendVow([]byte{recordVow}))
	}
}

func (c *durable) appendVow(b []byte) []byte {
	b = append(le.AppendUint32(b, c.cfg.Life), 0)
	if c.lost {
		b[len(b)-1] = 1
	}
	b = le.AppendUint32(le.AppendUint32(b, c.promised), c.promisedTo)
	for i := range c.group.Members {
		b = le.AppendUint32(b, c.losses[i])
	}
	return b
}

// vote holds an entry, durably in mode sync. It does nothing if the entry is held with the same timestamp
// already.
func (c *durable) vote(n uint64, ts uint32, slot []byte) {
	if v := c.votes[n]; v != nil && v.ts == ts && bytes.Equal(v.slot, slot) {
		return
	}
	c.votes[n] = &vote{ts, slot}
	if c.cfg.Sync {
		c.log.record(appendVote([]byte{recordEntry}, n, c.votes[n]))
	}
}

// secure records a decided entry before this process applies it, so that the log holds all that the state
// machine holds. All later leaders have the entry, so it may be recorded with the timestamp promised last.
func (c *durable) secure(n uint64, e *entry) {
	if c.cfg.Sync && c.started {
		if v := c.votes[n]; v == nil || !bytes.Equal(v.slot, e.slot) {
			c.vote(n, c.promised, e.slot)
		}
	}
	delete(c.votes, n)
}

func appendVote(b []byte, n uint64, v *vote) []byte {
	b = le.AppendUint32(le.AppendUint64(b, n), v.ts)
	return append(le.AppendUint32(b, uint32(len(v.slot))), v.slot...)
}

// appendLedger encodes the applied part of the log, and the entries that child groups have not ordered.
func (c *Core) appendLedger(b []byte) []byte {
	l := &c.ledger
	b = le.AppendUint64(le.AppendUint64(b, l.base), l.lastNeeded)
	b = append(le.AppendUint64(b, l.first.parent), 0)
	if l.first.sealed {
		b[len(b)-1] = 1
	}
	for _, p := range c.ids {
		b = le.AppendUint64(b, l.first.clients[p])
	}
	for _, f := range c.children {
		b = le.AppendUint64(le.AppendUint64(b, l.first.children[f.to.ID]), f.taken)
		count := 0
		if last := l.first.children[f.to.ID]; last > f.taken {
			count = int(last - f.taken)
		}
		b = le.AppendUint32(b, uint32(count))
		for _, slot := range f.entries[:count] {
			b = append(le.AppendUint32(b, uint32(len(slot))), slot...)
		}
	}
	b = le.AppendUint64(b, uint64(c.delivered.Final))
	b = le.AppendUint64(le.AppendUint32(b, uint32(c.delivered.ID.Sender)), c.delivered.ID.Seq)
	b = le.AppendUint32(b, uint32(l.applied-l.base))
	for n := l.base + 1; n <= l.applied; n++ {
		slot := l.at(n).slot
		b = append(le.AppendUint32(b, uint32(len(slot))), slot...)
	}
	return b
}

// appendOwn encodes the state that does not come from other members, with the held entries after a place.
func (c *durable) appendOwn(b []byte, applied uint64) []byte {
	b = c.appendVow(b)
	for n := applied + 1; n <= applied+uint64(c.cfg.Slots); n++ {
		if v := c.votes[n]; v != nil {
			b = appendVote(b, n, v)
		}
	}
	return b
}

// Checkpoint returns a record that replaces all records output before, including those of the last step.
func (c *Core) Checkpoint() []byte {
	return c.appendOwn(c.appendLedger([]byte{recordCheckpoint}), c.ledger.applied)
}

// flushLog outputs the records of this step, or a checkpoint if they have become long.
func (c *Core) flushLog() {
	j := &c.log
	if len(j.records) == 0 {
		return
	}
	if j.limit = max(j.limit, c.cfg.CheckpointMin); j.written > j.limit {
		checkpoint := c.Checkpoint()
		clear(j.records)
		j.records = append(j.records[:0], checkpoint)
		j.written, j.limit = 0, 2*len(checkpoint)
		c.out.Checkpoint = true
	}
	c.out.Records, c.out.Sync = append(c.out.Records, j.records...), true
	clear(j.records)
	j.records = j.records[:0]
}

// Replay feeds one record of the log to a new core. All records are replayed in order before the first step.
// After an error the core must not be used.
func (c *Core) Replay(record []byte) error {
	r := &reader{b: record, ok: len(record) > 0}
	var err error
	switch kind := r.take(1)[0]; kind {
	case recordVow:
		c.replayVow(r)
	case recordEntry:
		err = c.replayVote(r)
	case recordCheckpoint:
		if err = c.replayLedger(r); err == nil {
			c.replayVow(r)
			for err == nil && r.ok && len(r.b) > 0 {
				err = c.replayVote(r)
			}
		}
	default:
		err = fmt.Errorf("unknown kind %d", kind)
	}
	switch {
	case err != nil:
	case !r.ok:
		err = fmt.Errorf("it is too short: is this the log of another process?")
	case len(r.b) > 0:
		err = fmt.Errorf("%d bytes are left: is this the log of another process?", len(r.b))
	case c.cfg.Successive && c.log.life < maxLife:
		c.succeed(c.log.life + 1)
	case c.log.life >= c.cfg.Life:
		err = fmt.Errorf("it is of life %d: Life %d must be above that of all earlier lives", c.log.life, c.cfg.Life)
	}
	if err != nil {
		return fmt.Errorf("tram: record of %d bytes: %w", len(record), err)
	}
	c.log.written += len(record)
	return nil
}

func (c *durable) replayVow(r *reader) {
	c.log.life = max(c.log.life, r.uint32())
	c.lost = r.take(1)[0] != 0
	c.promised, c.promisedTo = r.uint32(), r.uint32()
	for i := range c.group.Members {
		c.losses[i] = r.uint32()
	}
	if int(c.promised&0xff) >= len(c.group.Members) {
		r.ok = false
	}
}

func (c *durable) replayVote(r *reader) error {
	n, ts, slot := r.uint64(), r.uint32(), r.bytes()
	if !r.ok {
		return nil
	}
	e, _, ok := decodeEntry(slot, n)
	if !ok || len(slot) > c.cfg.SlotSize || n > math.MaxInt64 {
		return fmt.Errorf("entry %d of %d bytes is damaged, or longer than SlotSize %d", n, len(slot), c.cfg.SlotSize)
	}
	c.votes[n] = &vote{ts, e.slot}
	return nil
}

// replayLedger decodes the output of appendLedger. The first step applies its entries.
func (c *Core) replayLedger(r *reader) error {
	l := &c.ledger
	l.base, l.lastNeeded, l.first, c.votes = r.uint64(), r.uint64(), newPositions(), map[uint64]*vote{}
	l.first.parent, l.first.sealed = r.uint64(), r.take(1)[0] != 0
	for _, p := range c.ids {
		l.first.clients[p] = r.uint64()
	}
	for _, f := range c.children {
		l.first.children[f.to.ID], f.taken = r.uint64(), r.uint64()
		f.entries = nil
		for count := r.uint32(); count > 0 && r.ok; count-- {
			f.entries = append(f.entries, r.bytes())
		}
	}
	c.delivered.Final = multicast.Timestamp(r.uint64())
	c.delivered.ID = multicast.MessageID{Sender: multicast.ProcessID(r.uint32()), Seq: r.uint64()}
	c.log.replayed, c.log.written = nil, 0
	state := l.first.clone()
	for i, count := uint64(0), uint64(r.uint32()); i < count && r.ok; i++ {
		n := l.base + 1 + i
		e, _, ok := decodeEntry(r.bytes(), n)
		if !r.ok {
			break
		}
		if !ok || !c.follows(state, e) {
			return fmt.Errorf("entry %d is damaged, or not of this configuration", n)
		}
		state.add(e)
		c.log.replayed = append(c.log.replayed, e)
	}
	l.applied, l.state = l.base, l.first.clone()
	return nil
}

// wasApplied returns an entry up to which an earlier life had applied the log at least. The replayed entries
// prove it: store holds an entry only after the entry that had its slot before was applied, and secure
// recorded that one.
func (c *durable) wasApplied() (n uint64) {
	for v := range c.votes {
		if v > uint64(c.cfg.Slots) {
			n = max(n, v-uint64(c.cfg.Slots))
		}
	}
	return n
}

// recall ends the replay: entries that are known to be decided are applied.
func (c *Core) recall() {
	l := &c.ledger
	c.delivered = c.cfg.Delivered.Of("")
	for _, e := range c.log.replayed {
		l.push(e)
		c.apply(e)
	}
	c.log.replayed = nil
	for l.applied < max(c.skip, c.wasApplied()) {
		v := c.votes[l.applied+1]
		if v == nil {
			break // the state machine is ahead of this log and has the rest
		}
		e, _, ok := decodeEntry(v.slot, l.applied+1)
		if !ok || !c.follows(l.state, e) {
			break
		}
		l.push(e)
		c.apply(e)
	}
}

// restore applies the entries that are known to be decided, and the memory holds what it held.
func (c *Core) restore() {
	c.recall()
	l := &c.ledger
	if c.skip < l.lastNeeded {
		c.needsState = l.base // the log does not hold the deliveries that the state machine lacks
		c.mute = true
	}
	for n := max(l.base, l.applied-min(l.applied, uint64(c.cfg.Slots))) + 1; n <= l.applied; n++ {
		c.memory[logRegion].Store(headerSize+c.cfg.place(n), stamped(l.at(n).slot, c.promised))
	}
	for n := l.applied + 1; n <= l.applied+uint64(c.cfg.Slots); n++ {
		if v := c.votes[n]; v != nil {
			c.memory[logRegion].Store(headerSize+c.cfg.place(n), stamped(v.slot, v.ts))
		}
	}
	for n := range c.votes {
		if n <= l.applied || n > l.applied+uint64(c.cfg.Slots) {
			delete(c.votes, n)
		}
	}
}
