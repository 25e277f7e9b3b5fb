package primcast

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Replay implements multicast.Core. After an error the core is of no use.
func (c *Core) Replay(record []byte) error {
	r := varint.NewReader(record)
	var err error
	switch kind := r.Uint8(); kind {
	case recordEntry:
		_, err = c.replayEntry(r, true)
	case recordClock:
		c.log.reaches(readTimestamp(r))
	case recordFinals:
		err = c.replayFinals(r)
	case recordCheckpoint:
		err = c.replayCheckpoint(r, c.config.Founded)
	case recordGrown:
		err = c.replayCheckpoint(r, int(r.Uint(maxNumber)))
	case recordPromise:
		err = c.replayEpochs(c.current, readEpoch(r))
	case recordState:
		err = c.replayState(r)
	case recordLost:
		c.lost = readEpoch(r)
	case recordOverlap:
		c.overlap.epoch = readEpoch(r)
	case recordRoster:
		err = c.replayRoster(r, c.own)
		c.replayRetired(r)
	default:
		err = fmt.Errorf("unknown kind %d", kind)
	}
	if err == nil {
		err = r.Done()
	}
	if err != nil {
		return fmt.Errorf("primcast: record of %d bytes: %w", len(record), err)
	}
	c.log.replayed(record)
	return nil
}

// replayEntry restores an entry of T. next means that its index follows the last one without a gap.
func (c *delivery) replayEntry(r *varint.Reader, next bool) (*message, error) {
	m := readRecord(r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch {
	case !m.To(c.own.id) || !c.offers(&m.Message):
		return nil, fmt.Errorf("message %v to groups %v is not of this configuration: is this the log of another process?", m.ID, m.Dest)
	case c.messages[m.ID] != nil || next && c.done.has(m.ID):
		return nil, fmt.Errorf("message %v is in T twice", m.ID)
	case m.index <= c.t.last() || next && m.index != c.t.last()+1 || m.ts <= c.t.lastTimestamp():
		return nil, fmt.Errorf("entry %d at %d after entry %d at %d: a record is missing or out of order", m.index, m.ts, c.t.last(), c.t.lastTimestamp())
	}
	m.class = c.classOf(m.Dest)
	c.messages[m.ID] = m
	c.t.append(m)
	c.log.reaches(m.ts)
	return m, nil
}

func (c *variables) replayFinals(r *varint.Reader) error {
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
	m.bound, m.decided, m.settled = final, true, true
	return nil
}

// replayRoster seats the members of a group.
func (c *Core) replayRoster(r *varint.Reader, g *group) error {
	next := readRoster(r)
	switch {
	case r.Err() != nil:
		return r.Err()
	case next.latest.Compare(g.seatedIn()) < 0 || !c.seatable(g, next):
		return fmt.Errorf("members %v of group %d in epoch %v, after %v: is this the log of another cluster?", next.ids, g.id, next.latest, g.seatedIn())
	}
	c.seat(g, next)
	return nil
}

// replayRetired restores whether this process has retired.
func (c *variables) replayRetired(r *varint.Reader) {
	if r.Uint(1) == 1 {
		c.state = Retired
	}
}

// replayEpochs sets E_cur and E_prom.
func (c *Core) replayEpochs(current, promised Epoch) error {
	if !c.isOwn(current) || !c.isOwn(promised) || promised.Compare(current) < 0 || current.Compare(c.current) < 0 {
		return fmt.Errorf("epoch %v, promised to %v, after epoch %v: not of group %d", current, promised, c.current, c.own.id)
	}
	c.current, c.own.epoch, c.promised, c.highest = current, current, promised, promised
	return nil
}

// isOwn reports whether the leader of e may be or have been a member of the own group. For an unknown process
// it is true: the process may have joined and left in epochs that this log does not contain.
func (c *system) isOwn(e Epoch) bool {
	q := c.peers[e.Leader]
	if q == nil && e.Leader != 0 {
		q = c.peer(e.Leader)
		q.group = c.own
	}
	return q != nil && q.group == c.own
}

// replayState restores the T of a new epoch.
func (c *Core) replayState(r *varint.Reader) error {
	epoch, from, length := readEpoch(r), r.Uint(maxNumber), r.Uint(maxNumber)
	if err := c.replayRoster(r, c.own); err != nil {
		return err
	}
	if err := c.replayEpochs(epoch, epoch); err != nil {
		return err
	}
	for _, m := range c.t.cut(from) {
		if m.decided {
			return fmt.Errorf("epoch %v: its T has no message %v, which was delivered", epoch, m.ID)
		}
		delete(c.messages, m.ID)
	}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		if _, err := c.replayEntry(r, false); err != nil {
			return err
		}
	}
	return c.replayEnd(r, length)
}

// replayEnd sets the length of T. Entries that are missing at the end are forgotten ones.
func (c *variables) replayEnd(r *varint.Reader, last uint64) error {
	switch {
	case r.Err() != nil:
		return r.Err()
	case c.t.last() > last:
		return fmt.Errorf("end of T at entry %d, and entry %d is in it", last, c.t.last())
	}
	c.t.pad(last)
	return nil
}

// replayCheckpoint replaces the state replayed so far by that of a checkpoint, which has the first groups of
// the configuration.
func (c *Core) replayCheckpoint(r *varint.Reader, groups int) error {
	if groups > len(c.groupIDs) {
		return fmt.Errorf("checkpoint of %d groups: this process knows %d: it must learn of the others first", groups, len(c.groupIDs))
	}
	current, promised := readEpoch(r), readEpoch(r)
	c.seated = r.Uint(1) == 1
	c.replayRetired(r)
	for _, id := range c.groupIDs[:groups] {
		if err := c.replayRoster(r, c.groups[id]); err != nil {
			return err
		}
		g := c.groups[id]
		g.forgotten, g.lastGone = readProgress(r), r.Uint(maxNumber)
		g.lastOwn = g.lastGone
		for _, at := range g.forgotten {
			if (at.Class == "") != (c.plain != nil) {
				return fmt.Errorf("class %v is forgotten in group %d: is this the log of a process with another Config.Classes?", at.Class, id)
			}
		}
	}
	if err := c.replayEpochs(current, promised); err != nil {
		return err
	}
	c.messages = map[multicast.MessageID]*message{}
	c.log.restored(readTimestamp(r))
	last := r.Uint(maxNumber)
	c.done = readNumbers(r)
	c.t = sequence{}
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
	err := c.replayEnd(r, last)
	c.lost, c.overlap.epoch = Epoch{}, Epoch{}
	if r.Len() > 0 {
		c.lost = readEpoch(r)
	}
	if r.Len() > 0 {
		c.overlap.epoch = readEpoch(r)
	}
	return err
}

// Lacks returns, after the replay, a position that the state machine (Config.Delivered) must have reached and
// has not reached, since the log does not have the deliveries up to it any more. If lacks is true, the state
// machine does not belong to the log or has lost data, and the process must not continue.
func (c *Core) Lacks() (at multicast.ClassPosition, lacks bool) {
	for _, gone := range c.own.forgotten {
		if gone.Compare(c.config.Delivered.Of(gone.Class)) > 0 {
			return gone, true
		}
	}
	return at, false
}

// begin ends the replay. Messages that are known to be delivered and durable in the state machine are done.
// The other messages in T are pending until their final timestamps are known again. Those at or below the
// durable position are not delivered again.
//
// Unless E_cur is the first epoch, the process does not know whether a quorum has accepted it. ACCEPTs and
// ACKs show that (startLink).
func (c *Core) begin() {
	if c.state == Retired {
		return
	}
	c.clock = max(c.clock, c.log.restartsAt())
	c.loseMemory()
	c.own.decided, c.held = c.t.lastGone(), c.holds()
	for m := range c.t.all() {
		c.concern(m)
		c.moved(m)
		durable := c.config.Delivered.Of(m.class.name)
		if len(m.Dest) == 1 && !m.decided {
			if at := (multicast.Position{Final: m.ts, ID: m.ID}); at.Compare(durable) <= 0 {
				m.bound, m.decided = m.ts, true
			}
		}
		if m.decided {
			c.own.decided = max(c.own.decided, m.index)
		}
		if !m.decided || m.position().Compare(durable) > 0 {
			c.pend(m)
		}
	}
	c.seekLinks()
	var done []*message
	for m := range c.t.all() {
		switch {
		case m.decided && m.position().Compare(c.config.Delivered.Of(m.class.name)) <= 0:
			done = append(done, m)
		case m.index <= c.own.decided:
			c.decide(m, c.own, m.ts)
		}
	}
	slices.SortFunc(done, func(a, b *message) int { return a.position().Compare(b.position()) })
	for _, m := range done {
		c.finish(m)
	}
	c.oracle.progressed(c.now)
	c.overlap.resigned = c.overlap.epoch
	switch leads := c.promised.Leader == c.self.id; {
	case c.isAmnesiac():
		c.state = Promised
	case c.hasResigned():
		c.state = Candidate // it campaigns for the next epoch (activate)
	case c.promised.Number == 1 && leads: // line 8
		c.state = Primary
	case c.promised.Number == 1:
		c.state = Follower
	case leads:
		c.state = Candidate
	default:
		c.state = Promised
	}
}

// seekLinks sends to processes whose acknowledgements are missing. A link starts only when one end sends, and
// after a restart both ends may have nothing to send.
func (c *variables) seekLinks() {
	for m := range c.t.all() {
		if m.decided {
			continue
		}
		for _, id := range m.Dest {
			for _, q := range c.groups[id].members() {
				q.speak = true
			}
		}
	}
}

// startLink sends q the state that q may have lost with the link, or never had: own messages, the state of
// the change of epochs, the length of T and the clock. q requests the entries of T that it lacks. Then the
// coverage follows (flush).
func (c *delivery) startLink(q *peer) {
	if q.group == nil {
		q.sendRoster(c.own) // q may have been a member before this process began
		return
	}
	q.frame, q.coverageSent, q.clockSent, q.lengthSent, q.fetching, q.resume = q.frame[:0], nil, 0, 0, false, 0
	q.early = 0
	q.coverageNew = true
	if !q.group.elects(q) { // q has left, or has not joined yet
		q.sendRoster(q.group)
		return
	}
	c.resend(q, 1)
	// Genuineness: otherwise there is nothing to send.
	q.speak = q.group.lastOwn != 0 || q.group == c.own && (c.clock > 0 || c.isAmnesiac())
	for m := range c.t.all() {
		if m.ID.Sender == q.id && !m.To(q.group.id) {
			q.frame = (&havePacket{m.ID}).append(q.frame)
		}
	}
	q.sendRoster(c.own)
	if q.group == c.own && q != c.self && c.hasResigned() {
		q.frame = (&pingPacket{}).append(q.frame) // the answer shows whether q follows this process
	}
	if q.group != c.own || c.promised.Number == 1 {
		return
	}
	if c.promised.Leader == c.self.id {
		q.frame = (&newEpochPacket{epoch: c.promised, roster: c.own.roster()}).append(q.frame)
	}
	if c.promised == c.current {
		if !c.isAmnesiac() {
			q.frame = (&acceptPacket{c.current}).append(q.frame)
		}
	} else if c.promised.Leader == q.id && c.state == Promised {
		c.sendPromise(q)
	}
}
