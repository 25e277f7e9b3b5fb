package primcast

import (
	"cmp"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of records.
const (
	recordEntry      = 1 + iota // ⟨E, m, ts⟩ joined T: an entry
	recordClock                 // the clock may have been said up to a ceiling: ts
	recordFinals                // final timestamps of entries: count, (id, ts)…
	recordCheckpoint            // the whole live state (appendCheckpoint)
)

// checkpointFactor is how many times the live state the records since the last checkpoint
// must at least be before the next.
const checkpointFactor = 2

// journal is what this process does to its log.
type journal struct {
	checkpointMin int
	begun         bool                // the log was replayed
	records       [][]byte            // of this step
	written       int                 // bytes since the last checkpoint
	live          int                 // about the bytes of T in a checkpoint
	ceiling       multicast.Timestamp // the clock of a process that replays the log
}

func (j *journal) record(b []byte) {
	j.records = append(j.records, b)
	j.written += len(b)
}

// logEntry puts m at the end of T.
func (c *Core) logEntry(m *message) {
	if m.index != c.last+1 || m.ts <= c.lastTS {
		invariant.Check(false, "entry %d at %d follows entry %d at %d in T (I2)", m.index, m.ts, c.last, c.lastTS)
	}
	c.addEntry(m)
	c.log.record(appendEntry(append(make([]byte, 0, packetSize(&m.Message)), recordEntry), m))
}

// addEntry is logEntry without the record.
func (c *Core) addEntry(m *message) {
	m.logged = true
	c.last, c.lastTS = m.index, m.ts
	c.log.ceiling = max(c.log.ceiling, m.ts)
	c.log.live += packetSize(&m.Message)
	c.stats.Entries++
}

// logClock makes sure that a restart does not bring back a clock below the present one.
func (c *Core) logClock() {
	if c.clock <= c.log.ceiling {
		return
	}
	c.log.ceiling = c.clock + clockStride
	c.log.record(varint.AppendUint([]byte{recordClock}, c.log.ceiling))
}

// logFinals puts the final timestamps of messages to several groups into the log when
// something goes there anyway: after a restart they cannot be had from peers that were told that
// this process covers them. Those of messages to one group are their timestamps in T.
func (c *Core) logFinals() {
	if len(c.unnoted) == 0 || len(c.log.records) == 0 {
		return
	}
	b := varint.AppendUint([]byte{recordFinals}, uint64(len(c.unnoted)))
	for _, m := range c.unnoted {
		b = appendPosition(b, m.position())
	}
	c.log.record(b)
	clear(c.unnoted)
	c.unnoted = c.unnoted[:0]
}

// flushLog hands over the records of this step, or a checkpoint in their place.
func (c *Core) flushLog(out *multicast.Output) {
	live := c.log.live + 8*c.done.spans()
	if c.log.written > max(c.log.checkpointMin, checkpointFactor*live) {
		clear(c.log.records)
		c.log.records = append(c.log.records[:0], c.appendCheckpoint(make([]byte, 0, live)))
		c.log.written = 0
		clear(c.unnoted)
		c.unnoted = c.unnoted[:0]
		out.Checkpoint = true
	}
	out.Records = append(out.Records, c.log.records...)
	clear(c.log.records)
	c.log.records = c.log.records[:0]
}

func appendEntry(b []byte, m *message) []byte {
	b = varint.AppendUint(appendEpoch(b, m.epoch), m.index)
	return appendMessage(varint.AppendUint(varint.AppendUint(b, m.ts), m.prev), &m.Message)
}

func readEntry(r *varint.Reader) *message {
	m := &message{epoch: readEpoch(r), index: r.Uint(maxNumber), ts: readTimestamp(r), prev: r.Uint(maxNumber)}
	m.Message, m.started = readMessage(r), true
	return m
}

// appendCheckpoint writes the state that all records so far make, less what is forgotten.
func (c *Core) appendCheckpoint(b []byte) []byte {
	b = varint.AppendUint(append(b, recordCheckpoint), c.self.id)
	b = appendEpoch(appendEpoch(b, c.current), c.promised)
	b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, c.log.ceiling), c.last), c.lastTS)
	b = c.done.append(b)
	b = varint.AppendUint(b, uint64(c.stats.Entries))
	for _, m := range c.entries() {
		var final multicast.Timestamp
		if m.decided {
			final = m.bound
		}
		b = appendEntry(varint.AppendUint(b, final), m)
	}
	return b
}

// entries gives T, without what is forgotten.
func (c *Core) entries() []*message {
	t := make([]*message, 0, c.stats.Entries)
	for _, m := range c.messages {
		if m.logged {
			t = append(t, m)
		}
	}
	slices.SortFunc(t, func(a, b *message) int { return cmp.Compare(a.index, b.index) })
	return t
}
