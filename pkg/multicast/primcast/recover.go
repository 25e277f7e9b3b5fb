package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Replay implements multicast.Core. After an error the core is of no use.
func (c *Core) Replay(record []byte) error {
	invariant.Check(!c.log.begun, "a record is replayed after the first step")
	r := varint.NewReader(record)
	var err error
	switch kind := r.Uint8(); kind {
	case recordEntry:
		_, err = c.replayEntry(r, true)
	case recordClock:
		c.log.ceiling = max(c.log.ceiling, readTimestamp(r))
	case recordFinals:
		err = c.replayFinals(r)
	case recordCheckpoint:
		err = c.replayCheckpoint(r)
	default:
		err = fmt.Errorf("unknown kind %d", kind)
	}
	if err == nil {
		err = r.Done()
	}
	if err != nil {
		return fmt.Errorf("primcast: record of %d bytes: %w", len(record), err)
	}
	c.log.written += len(record)
	return nil
}

// replayEntry brings an entry of T back; next: it follows the last one without a gap.
func (c *Core) replayEntry(r *varint.Reader, next bool) (*message, error) {
	m := readEntry(r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	leader := c.peers[m.epoch.Leader]
	switch {
	case leader == nil || leader.group != c.own:
		return nil, fmt.Errorf("epoch %v of message %v is not one of group %d: is this the log of another process?", m.epoch, m.ID, c.own.id)
	case c.peers[m.ID.Sender] == nil || !m.To(c.own.id) || !c.allExist(m.Dest):
		return nil, fmt.Errorf("message %v to groups %v is not of this configuration", m.ID, m.Dest)
	case c.messages[m.ID] != nil || next && c.done.has(m.ID):
		return nil, fmt.Errorf("message %v is in T twice", m.ID)
	case m.index <= c.last || next && m.index != c.last+1 || m.ts <= c.lastTS:
		return nil, fmt.Errorf("entry %d at %d after entry %d at %d: a record is missing or out of order", m.index, m.ts, c.last, c.lastTS)
	}
	c.messages[m.ID] = m
	c.addEntry(m)
	return m, nil
}

func (c *Core) replayFinals(r *varint.Reader) error {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		p := readPosition(r)
		m := c.messages[p.ID]
		if m == nil {
			return fmt.Errorf("final timestamp %d of message %v, which is not in T", p.Final, p.ID)
		}
		if err := m.replayFinal(p.Final); err != nil {
			return err
		}
	}
	return nil
}

func (m *message) replayFinal(final multicast.Timestamp) error {
	if final < m.ts || m.decided && final != m.bound {
		return fmt.Errorf("final timestamp %d of message %v, which is %d in T and %d before", final, m.ID, m.ts, m.bound)
	}
	m.bound, m.decided = final, true
	return nil
}

// replayCheckpoint replaces all that was replayed so far.
func (c *Core) replayCheckpoint(r *varint.Reader) error {
	if self := multicast.ProcessID(r.Uint32()); self != c.self.id {
		return fmt.Errorf("checkpoint of process %d in the log of process %d", self, c.self.id)
	}
	current, promised := readEpoch(r), readEpoch(r)
	if q := c.peers[current.Leader]; q == nil || q.group != c.own || promised.Compare(current) < 0 {
		return fmt.Errorf("checkpoint in epoch %v, promised to %v: not of group %d", current, promised, c.own.id)
	}
	c.enter(current)
	c.promised = promised
	c.messages = map[multicast.MessageID]*message{}
	c.stats.Entries, c.log.live, c.log.written, c.log.ceiling = 0, 0, 0, readTimestamp(r)
	last, lastTS := r.Uint(maxNumber), readTimestamp(r)
	c.done = readNumbers(r)
	c.last, c.lastTS = 0, 0
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		final := readTimestamp(r)
		m, err := c.replayEntry(r, false)
		if err == nil && final != 0 {
			err = m.replayFinal(final)
		}
		if err != nil {
			return err
		}
	}
	if c.last > last || c.lastTS > lastTS {
		return fmt.Errorf("checkpoint: T ends at entry %d, and entry %d is in it", last, c.last)
	}
	c.last, c.lastTS = last, lastTS
	return nil
}

// begin takes up the work after the replay. What is known to be delivered and durable
// in the state machine is done; the rest of T will be delivered again, or for
// the first time, once its final timestamps are known again. Where they turn out to
// be at or below the durable position, the state machine has them.
func (c *Core) begin() {
	c.log.begun = true
	c.clock = max(c.clock, c.log.ceiling)
	for _, m := range c.entries() {
		if len(m.Dest) == 1 && !m.decided {
			if at := (multicast.Position{Final: m.ts, ID: m.ID}); at.Compare(c.durable) <= 0 {
				m.bound, m.decided = m.ts, true
			}
		}
		if m.decided && m.position().Compare(c.durable) <= 0 {
			c.finish(m)
		} else {
			c.pend(m)
		}
	}
}

// startLink says to q again what it may need and have lost, or never had:
// own messages, and ACKs of T in the order of T. The clock follows (sayClock), and the own
// coverage (flush).
func (c *Core) startLink(q *peer) {
	q.frame, q.told, q.said = q.frame[:0], multicast.Position{}, 0
	c.resend(q)
	for _, m := range c.entries() {
		if m.To(q.group.id) {
			c.sendAck(q, m)
		} else if m.ID.Sender == q.id {
			q.frame = appendHave(q.frame, m.ID)
		}
	}
}
