package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of records.
const (
	recordEntry      = 1 + iota // an entry ⟨m, ts⟩ joined T
	recordClock                 // the clock may have been sent up to this ceiling
	recordFinals                // final timestamps of entries: count, (id, ts)…
	recordCheckpoint            // the whole live state (appendCheckpoint)
	recordPromise               // E_prom
	recordState                 // E_cur, its roster, and the entries of T after an index
	recordRoster                // the roster of the own group, and the place of this process in it
	recordLost                  // E_cur when power was lost (amnesia.go)
	recordGrown                 // recordCheckpoint of a configuration with added groups, after their number (groups.go)
	recordOverlap               // the epoch in which this process may have made proposals that the log lacks (overlap.go)
)

// checkpointFactor is the size of the records since the last checkpoint, in multiples of the live state, from
// which a new checkpoint is worth writing.
const checkpointFactor = 2

// journal is the write-ahead log as the core sees it: the records of the present step, and the clock and the
// final timestamps that the log has recorded.
type journal struct {
	checkpointMin int
	stride        multicast.Timestamp
	begun         bool                // the log was replayed
	records       [][]byte            // of this step
	sync          bool                // they must survive a loss of power (Output.Sync)
	written       int                 // bytes since the last checkpoint
	ceiling       multicast.Timestamp // the clock with which a process starts that replays the log
	unnoted       []*message          // delivered messages to several groups whose final timestamp is not in the log yet
}

func newJournal(cfg *Config) journal {
	j := journal{checkpointMin: cfg.CheckpointMin, stride: clockStride}
	if cfg.HybridClock {
		j.stride = hybridStride
	}
	return j
}

// begin ends the replay. It returns true for the first call.
func (j *journal) begin() (first bool) {
	first, j.begun = !j.begun, true
	return first
}

// replayed counts the bytes of a replayed record. restored is called for a checkpoint, with its ceiling.
func (j *journal) replayed(record []byte) {
	invariant.Check(!j.begun, "a record is replayed after the first step")
	j.written += len(record)
}

func (j *journal) restored(ceiling multicast.Timestamp) { j.written, j.ceiling = 0, ceiling }

// restartsAt returns the clock with which a process starts that replays the log.
func (j *journal) restartsAt() multicast.Timestamp { return j.ceiling }

// reaches raises the ceiling to ts, because a record makes a process that replays it have that clock.
func (j *journal) reaches(ts multicast.Timestamp) { j.ceiling = max(j.ceiling, ts) }

func (j *journal) record(b []byte) {
	j.records = append(j.records, b)
	j.written += len(b)
}

// entry records an entry of T.
func (j *journal) entry(m *message) {
	j.sync = j.sync || m.Durable
	j.reaches(m.ts)
	j.record(appendRecord(append(make([]byte, 0, packetSize(&m.Message)), recordEntry), m))
}

// promise records E_prom.
func (j *journal) promise(e Epoch) {
	j.sync = true
	j.record(appendEpoch([]byte{recordPromise}, e))
}

// lost records that entries of an epoch may be missing.
func (j *journal) lost(e Epoch) {
	j.sync = true
	j.record(appendEpoch([]byte{recordLost}, e))
}

// overlap records that proposals in an epoch leave early from the next step on.
func (j *journal) overlap(e Epoch) {
	j.sync = true
	j.record(appendEpoch([]byte{recordOverlap}, e))
}

// state records the T of a new epoch in a single record, so that a log which ends early does not contain a
// part of it.
func (j *journal) state(e Epoch, r roster, t *sequence, from uint64) {
	tail := slices.Collect(t.after(from))
	b := appendEpoch([]byte{recordState}, e)
	b = appendRoster(varint.AppendUint(varint.AppendUint(b, from), t.last()), r)
	b = varint.AppendUint(b, uint64(len(tail)))
	for _, m := range tail {
		j.reaches(m.ts)
		b = appendRecord(b, m)
	}
	j.record(b)
	j.sync = true
}

// members records the roster of the own group.
func (j *journal) members(r roster, retired bool) {
	j.sync = true
	j.record(appendBool(appendRoster([]byte{recordRoster}, r), retired))
}

// clock records a higher ceiling if now is above the present one, so that a restarted clock is not below a
// clock that was sent.
func (j *journal) clock(now multicast.Timestamp) {
	if now <= j.ceiling {
		return
	}
	j.ceiling = now + j.stride
	j.record(varint.AppendUint([]byte{recordClock}, j.ceiling))
}

// delivered adds a delivered message to several groups to those that finals must record.
func (j *journal) delivered(m *message) { j.unnoted = append(j.unnoted, m) }

// finals records the final timestamps of delivered messages to several groups, in a step that has other
// records too. They must be in the log before this process reports coverage: then peers forget the messages
// and cannot send the timestamps again after a restart. A message to one group needs no such record, since
// its final timestamp is its timestamp in T.
func (j *journal) finals() {
	if len(j.unnoted) == 0 || len(j.records) == 0 {
		return
	}
	b := varint.AppendUint([]byte{recordFinals}, uint64(len(j.unnoted)))
	for _, m := range j.unnoted {
		b = appendPosition(b, m.position())
	}
	j.record(b)
	j.noted()
}

func (j *journal) noted() {
	clear(j.unnoted)
	j.unnoted = j.unnoted[:0]
}

// lacksFinal reports whether the log lacks the final timestamp of a delivery of a class up to a position.
func (j *journal) lacksFinal(at multicast.ClassPosition) bool {
	return slices.ContainsFunc(j.unnoted, func(m *message) bool {
		return m.class.name == at.Class && m.position().Compare(at.Position) <= 0
	})
}

// checkpointed records that a checkpoint has replaced all records so far.
func (j *journal) checkpointed() {
	j.written = 0
	j.noted()
}

// isLong reports whether the log is long enough for a checkpoint of that size.
func (j *journal) isLong(size int) bool {
	return j.written > max(j.checkpointMin, checkpointFactor*size)
}

// restart replaces the records of this step by a checkpoint.
func (j *journal) restart(checkpoint []byte) {
	clear(j.records)
	j.records = append(j.records[:0], checkpoint)
}

// flush outputs the records of this step.
func (j *journal) flush(out *multicast.Output) {
	out.Records = append(out.Records, j.records...)
	out.Sync, j.sync = j.sync && len(out.Records) > 0, false
	clear(j.records)
	j.records = j.records[:0]
}

// checkpointSize returns the approximate length of a checkpoint.
func (c *variables) checkpointSize() int { return c.t.size() + 8*c.done.spans() }

// Checkpoint returns a record that replaces all records output so far, including those of the last step. If
// several cores share a log, the caller takes a checkpoint of each before it cuts the log.
func (c *Core) Checkpoint() []byte {
	c.log.checkpointed()
	return c.appendCheckpoint(make([]byte, 0, c.checkpointSize()))
}

// flushLog outputs the records of this step, or a checkpoint instead.
func (c *Core) flushLog(out *multicast.Output) {
	if c.log.isLong(c.checkpointSize()) {
		c.log.restart(c.Checkpoint())
		out.Checkpoint = true
	}
	c.log.flush(out)
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

// appendCheckpoint writes the state after all records so far, without forgotten entries.
func (c *Core) appendCheckpoint(b []byte) []byte {
	b = c.appendState(b)
	if c.lost != (Epoch{}) || c.overlap.epoch != (Epoch{}) {
		b = appendEpoch(b, c.lost)
	}
	if c.overlap.epoch != (Epoch{}) {
		b = appendEpoch(b, c.overlap.epoch)
	}
	return b
}

// appendState writes the part of a checkpoint that another member may take over.
func (c *Core) appendState(b []byte) []byte {
	b = appendEpoch(appendEpoch(c.appendCheckpointKind(b), c.current), c.promised)
	b = appendBool(appendBool(b, c.seated), c.state == Retired)
	for _, id := range c.groupIDs {
		g := c.groups[id]
		b = appendProgress(appendRoster(b, g.roster()), g.forgotten)
		b = varint.AppendUint(b, g.lastGone)
	}
	b = varint.AppendUint(varint.AppendUint(b, c.log.restartsAt()), c.t.last())
	b = c.done.append(b)
	b = varint.AppendUint(b, uint64(c.t.entries()))
	for m := range c.t.all() {
		var final multicast.Timestamp
		if m.settled {
			final = m.bound
		}
		b = appendRecord(varint.AppendUint(b, final), m)
	}
	return b
}
