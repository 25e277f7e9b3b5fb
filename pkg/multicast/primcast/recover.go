package primcast

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of records.
const (
	recordEntry      = 1 + iota // a tuple of T with its message
	recordCeiling               // the clock said stays below
	recordFinals                // final timestamps of entries of T
	recordCheckpoint            // all of the state
)

// checkpointMinimum is how many bytes of records may at least pass between two checkpoints.
const checkpointMinimum = 1 << 20

// final is final-ts of the message at a position of T.
type final struct {
	position uint64
	ts       multicast.Timestamp
}

func appendUint(b []byte, v uint64) []byte { return varint.AppendUint(b, v) }

func (c *Core) entryRecord(m *entry) []byte {
	b := appendUint(append(make([]byte, 0, len(m.Payload)+64), recordEntry), m.position)
	b = varint.AppendUint(appendEpoch(b, m.epoch), m.ts)
	return appendMessage(b, &m.Message)
}

func (c *Core) ceilingRecord() []byte {
	return varint.AppendUint([]byte{recordCeiling}, c.ceiling)
}

func (c *Core) finalsRecord() []byte {
	b := appendUint([]byte{recordFinals}, uint64(len(c.finals)))
	for _, f := range c.finals {
		b = varint.AppendUint(appendUint(b, f.position), f.ts)
	}
	return b
}

func (c *Core) record(r []byte) {
	c.out.Records = append(c.out.Records, r)
	c.written += len(r)
}

// recordStep adds what need not be durable before anything in particular is said, except that we cover
// it: final timestamps, when something is recorded anyway or when peers will be told and may
// forget; and a checkpoint when the records outweigh the state.
func (c *Core) recordStep() {
	if len(c.finals) > 0 && (len(c.out.Records) > 0 || c.advanceCovered()) {
		c.record(c.finalsRecord())
		c.finals = c.finals[:0]
	}
	c.advanceCovered()
	if c.written < checkpointMinimum {
		return
	}
	if b := c.checkpoint(); c.written > 2*len(b) {
		c.out.Records = append(c.out.Records[:0], b)
		c.out.Checkpoint = true
		c.written = 0
	} else {
		c.written = 0 // look again after as much has been written once more
	}
}

// checkpoint encodes all of the state that the records say.
func (c *Core) checkpoint() []byte {
	b := appendEpoch(appendEpoch([]byte{recordCheckpoint}, c.current), c.promised)
	b = varint.AppendUint(b, max(c.ceiling, c.clock))
	senders := make([]multicast.ProcessID, 0, len(c.high))
	for p := range c.high {
		senders = append(senders, p)
	}
	slices.Sort(senders)
	b = appendUint(b, uint64(len(senders)))
	for _, p := range senders {
		b = appendUint(varint.AppendUint(b, p), c.high[p])
	}
	b = appendUint(appendUint(b, c.first), uint64(len(c.log)))
	for _, m := range c.log {
		b = varint.AppendUint(varint.AppendUint(appendEpoch(b, m.epoch), m.ts), m.final)
		b = appendMessage(b, &m.Message)
	}
	return b
}

// Replay implements multicast.Core.
func (c *Core) Replay(record []byte) error {
	r := varint.NewReader(record)
	switch kind := r.Uint8(); kind {
	case recordEntry:
		c.replayEntry(r)
	case recordCeiling:
		c.ceiling = multicast.Timestamp(r.Uint64())
		c.clock = max(c.clock, c.ceiling)
	case recordFinals:
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			c.replayFinal(r.Uint64(), multicast.Timestamp(r.Uint64()))
		}
	case recordCheckpoint:
		c.replayCheckpoint(r)
	default:
		return fmt.Errorf("primcast: record of unknown kind %d", kind)
	}
	if err := r.Done(); err != nil {
		return fmt.Errorf("primcast: record of kind %d: %w", record[0], err)
	}
	return nil
}

func (c *Core) replayEntry(r *varint.Reader) {
	position, epoch, ts := r.Uint64(), readEpoch(r), multicast.Timestamp(r.Uint64())
	m := readMessage(r)
	if r.Err() != nil || position != c.end() {
		r.Fail()
		return
	}
	c.restore(&m, epoch, ts)
}

// restore puts a recorded message at the end of T.
func (c *Core) restore(m *multicast.Message, e Epoch, ts multicast.Timestamp) *entry {
	known := &entry{Message: *m, payload: true, locals: make([]local, len(m.Dest))}
	c.messages[m.ID] = known
	c.insert(known, e, ts)
	c.clock = max(c.clock, ts)
	if m.ID.Sender == c.self {
		i, _ := slices.BinarySearchFunc(c.outbox, m.ID, multicast.MessageID.Compare)
		c.outbox = slices.Insert(c.outbox, i, m.ID)
	}
	return known
}

// replayFinal says that the final timestamp at a position was decided.
func (c *Core) replayFinal(position uint64, ts multicast.Timestamp) {
	if position < c.first || position >= c.end() {
		return // forgotten since
	}
	m := c.log[position-c.first]
	if m.delivered {
		return
	}
	for i := range m.locals {
		m.locals[i].decided = true
	}
	m.decided, m.bound = len(m.Dest), ts
	m.final = ts
	if m.key().Compare(c.delivered) <= 0 {
		m.delivered = true
		heap.Remove(&c.pending, m.index)
	} else {
		heap.Fix(&c.pending, m.index)
	}
}

func (c *Core) replayCheckpoint(r *varint.Reader) {
	c.messages, c.log, c.pending, c.outbox = map[multicast.MessageID]*entry{}, nil, nil, nil
	c.setEpoch(readEpoch(r))
	c.promised = readEpoch(r)
	c.ceiling = multicast.Timestamp(r.Uint64())
	c.clock = max(c.clock, c.ceiling)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		c.high[multicast.ProcessID(r.Uint32())] = r.Uint64()
	}
	c.first = r.Uint64()
	for n := r.Count(); n > 0; n-- {
		epoch, ts, decided := readEpoch(r), multicast.Timestamp(r.Uint64()), multicast.Timestamp(r.Uint64())
		m := readMessage(r)
		if r.Err() != nil {
			return
		}
		c.restore(&m, epoch, ts)
		if decided != 0 {
			c.replayFinal(c.end()-1, decided)
		}
	}
}

// restartLink says a peer again all that it may need: it, or we, lost what was
// on the way.
func (c *Core) restartLink(p multicast.ProcessID) {
	at := c.places[p]
	delete(c.told, p)
	if p == c.current.Leader {
		c.queue = nil // it says all of it again
	}
	for _, id := range c.outbox {
		if m := c.own(id); m.To(at.group) {
			c.send(p, func(b []byte) []byte { return appendMessage(append(b, kindStart), m) })
		}
	}
	for _, m := range c.log {
		if !m.To(at.group) {
			continue
		}
		if c.state == Primary && at.group == c.group.ID && p != c.self {
			c.send(p, func(b []byte) []byte { return appendMessage(append(b, kindPayload), &m.Message) })
		}
		a := c.ackOf(m)
		c.send(p, func(b []byte) []byte { return appendAck(append(b, kindAck), &a) })
	}
	if at.group == c.group.ID && c.clock > 0 {
		c.sayClock([]multicast.ProcessID{p})
	}
}

// own gives a message of the outbox.
func (c *Core) own(id multicast.MessageID) *multicast.Message {
	if m := c.foreign[id]; m != nil {
		return m
	}
	m := c.messages[id]
	invariant.Check(m != nil, "message %v is in the outbox and not in M", id)
	return &m.Message
}

// cover notes how far the state machine is durable.
func (c *Core) cover(p multicast.Position) {
	if p.Compare(c.durable) > 0 {
		c.durable = p
	}
}

// advanceCovered lets peers know how far the state machine is durable, as far as all final timestamps
// below are decided here: while one is missing we still need ACKs that peers could forget.
func (c *Core) advanceCovered() bool {
	if c.durable.Compare(c.covered[c.self]) <= 0 || len(c.pending) > 0 && c.pending[0].key().Compare(c.durable) <= 0 {
		return false
	}
	c.covered[c.self] = c.durable
	c.trimmable = true
	return true
}

// onCovered notes how far a peer is.
func (c *Core) onCovered(from multicast.ProcessID, p multicast.Position) {
	if p.Compare(c.covered[from]) > 0 {
		c.covered[from] = p
		c.trimmable = true
	}
}

// trim forgets the front of T as far as all destinations hold it durably.
func (c *Core) trim() {
	if !c.trimmable {
		return
	}
	c.trimmable = false
	n := 0
	for n < len(c.log) && c.isCovered(c.log[n]) {
		c.forget(c.log[n])
		n++
	}
	c.log = slices.Delete(c.log, 0, n)
	c.first += uint64(n)
}

// isCovered reports whether all processes of m.dest hold m durably.
func (c *Core) isCovered(m *entry) bool {
	if !m.delivered {
		return false
	}
	for _, g := range m.Dest {
		for _, p := range c.groups[g].Members {
			if m.key().Compare(c.covered[p]) > 0 {
				return false
			}
		}
	}
	return true
}

func (c *Core) forget(m *entry) {
	delete(c.messages, m.ID)
	if m.ID.Sender == c.self {
		c.sent(m.ID)
	} else if c.state == Primary && m.Dest[0] == c.group.ID && !m.To(c.places[m.ID.Sender].group) {
		id := m.ID
		c.send(id.Sender, func(b []byte) []byte { return appendID(append(b, kindDone), id) })
	}
}

// onDone says that all destinations of an own message hold it durably.
func (c *Core) onDone(_ multicast.ProcessID, id multicast.MessageID) {
	if c.foreign[id] != nil {
		delete(c.foreign, id)
		c.sent(id)
	}
}

// sent takes an own message out of the outbox.
func (c *Core) sent(id multicast.MessageID) {
	if i, ok := slices.BinarySearchFunc(c.outbox, id, func(a, b multicast.MessageID) int { return cmp.Compare(a.Seq, b.Seq) }); ok {
		c.outbox = slices.Delete(c.outbox, i, i+1)
	}
}
