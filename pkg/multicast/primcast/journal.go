package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of records.
const (
	recordEntry      = 1 + iota // ⟨m, ts⟩ joined T: an entry
	recordClock                 // the clock may have been said up to a ceiling: ts
	recordFinals                // final timestamps of entries: count, (id, ts)…
	recordCheckpoint            // the whole live state (appendCheckpoint)
	recordPromise               // E_prom
	recordState                 // E_cur, its roster, and with it what follows an entry of T (logState)
	recordRoster                // the roster of the own group, and what this process is in it
)

// checkpointFactor is how many times the live state the records since the last checkpoint
// must at least be before the next.
const checkpointFactor = 2

// journal is what this process does to its log.
type journal struct {
	checkpointMin int
	stride        multicast.Timestamp
	begun         bool                // the log was replayed
	records       [][]byte            // of this step
	sync          bool                // they must survive a loss of power (Output.Sync)
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
	c.log.sync = c.log.sync || m.Durable
	c.addEntry(m)
	c.log.record(appendRecord(append(make([]byte, 0, packetSize(&m.Message)), recordEntry), m))
}

// addEntry is logEntry without the record.
func (c *Core) addEntry(m *message) {
	m.logged = true
	c.t.append(m)
	c.log.ceiling = max(c.log.ceiling, m.ts)
	c.log.live += packetSize(&m.Message)
	c.stats.Entries++
}

// dropEntry takes m, which has left T, out of the account.
func (c *Core) dropEntry(m *message) {
	m.logged = false
	c.log.live -= packetSize(&m.Message)
	c.stats.Entries--
}

// logState is one record for the T of a new epoch: a log that ends in the middle of it must not show half of it.
func (c *Core) logState(from uint64) {
	tail := slices.Collect(c.t.after(from))
	b := appendEpoch([]byte{recordState}, c.current)
	b = appendRoster(varint.AppendUint(varint.AppendUint(b, from), c.t.last()), c.own.roster())
	b = varint.AppendUint(b, uint64(len(tail)))
	for _, m := range tail {
		b = appendRecord(b, m)
	}
	c.log.record(b)
	c.log.sync = true
}

// logRoster makes what is known of the own group's members outlive a restart.
func (c *Core) logRoster() {
	b := appendRoster([]byte{recordRoster}, c.own.roster())
	c.log.record(appendBool(b, c.state == Retired))
	c.log.sync = true
}

// logClock makes sure that a restart does not bring back a clock below the present one.
func (c *Core) logClock() {
	if c.clock <= c.log.ceiling {
		return
	}
	c.log.ceiling = c.clock + c.log.stride
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

// Checkpoint gives a record that stands for all that were handed over before, those of the step just taken
// included. A log that several cores share is cut by the checkpoints of all of them.
func (c *Core) Checkpoint() []byte {
	c.log.written = 0
	clear(c.unnoted)
	c.unnoted = c.unnoted[:0]
	return c.appendCheckpoint(make([]byte, 0, c.log.live+8*c.done.spans()))
}

// flushLog hands over the records of this step, or a checkpoint in their place.
func (c *Core) flushLog(out *multicast.Output) {
	if c.log.written > max(c.log.checkpointMin, checkpointFactor*(c.log.live+8*c.done.spans())) {
		clear(c.log.records)
		c.log.records = append(c.log.records[:0], c.Checkpoint())
		out.Checkpoint = true
	}
	out.Records = append(out.Records, c.log.records...)
	out.Sync, c.log.sync = c.log.sync && len(out.Records) > 0, false
	clear(c.log.records)
	c.log.records = c.log.records[:0]
}

func appendRecord(b []byte, m *message) []byte {
	b = varint.AppendUint(varint.AppendUint(b, m.index), m.ts)
	return appendMessage(varint.AppendUint(b, m.prev), &m.Message)
}

func readRecord(r *varint.Reader) *message {
	m := &message{index: r.Uint(maxNumber), ts: readTimestamp(r), prev: r.Uint(maxNumber)}
	m.Message, m.started = readMessage(r), true
	return m
}

// appendCheckpoint writes the state that all records so far make, less what is forgotten.
func (c *Core) appendCheckpoint(b []byte) []byte {
	b = appendEpoch(appendEpoch(append(b, recordCheckpoint), c.current), c.promised)
	b = appendBool(appendBool(b, c.seated), c.state == Retired)
	for _, id := range c.groupIDs {
		g := c.groups[id]
		b = appendProgress(appendRoster(b, g.roster()), g.forgotten)
		b = varint.AppendUint(b, g.lastGone)
	}
	b = varint.AppendUint(varint.AppendUint(b, c.log.ceiling), c.t.last())
	b = c.done.append(b)
	b = varint.AppendUint(b, uint64(c.stats.Entries))
	for m := range c.t.all() {
		var final multicast.Timestamp
		if m.decided {
			final = m.bound
		}
		b = appendRecord(varint.AppendUint(b, final), m)
	}
	return b
}
