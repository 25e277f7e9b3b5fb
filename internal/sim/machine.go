package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// machine is the state machine of a process: a list of deliveries for each class. It outlives restarts of the
// process. A prefix of each list is durable; after a restart the core must deliver the other messages again,
// exactly as before.
type machine struct {
	run   *run
	self  multicast.ProcessID
	lines []*line
	safe  multicast.Timestamp // the highest Output.Safe that has left

	replaces     multicast.ProcessID // the member that this spare replaces, or a member of the group that it joins
	transferring bool                // the state of another process is on its way to this process
	learned      bool                // the machine has learned deliveries that its core had not made
}

// line is the list of one class.
type line struct {
	class   multicast.Class      // "" unless the protocol orders by classes
	history []multicast.Position // all deliveries ever made
	applied int                  // the length of the prefix of history that was delivered since the last start
	durable int                  // the length of the prefix of history that is durable
	safe    multicast.Timestamp  // the highest result of Protocol.SafeOf that has left
}

// line returns the list of a class.
func (m *machine) line(class multicast.Class) *line {
	for _, l := range m.lines {
		if l.class == class {
			return l
		}
	}
	m.lines = append(m.lines, &line{class: class})
	return m.lines[len(m.lines)-1]
}

// has reports whether a message was ever delivered or learned.
func (m *machine) has(id multicast.MessageID) bool {
	return slices.ContainsFunc(m.lines, func(l *line) bool {
		return slices.ContainsFunc(l.history, func(at multicast.Position) bool { return at.ID == id })
	})
}

// progress returns the progress of the durable deliveries.
func (m *machine) progress() (all multicast.Progress) {
	if m.run.protocol.Conflicts != nil {
		return multicast.UpTo(m.covered())
	}
	for _, l := range m.lines {
		if l.durable > 0 {
			all.Advance(l.class, l.history[l.durable-1])
		}
	}
	return all
}

// sync makes a random part of the applied deliveries durable, at random times. Once faults have ended it
// makes all of them durable.
func (m *machine) sync() multicast.Progress {
	for _, l := range m.lines {
		if rng := m.run.net.Rand(); m.run.net.healed || rng.IntN(4) == 0 {
			l.durable += rng.IntN(max(0, l.applied-l.durable) + 1)
		}
		if m.run.net.healed {
			l.durable = max(l.durable, l.applied)
		}
	}
	return m.progress()
}

// syncAfterLog calls sync. If the run has losses of power, it does so less often, and also makes the log
// durable.
func (m *machine) syncAfterLog() multicast.Progress {
	net := m.run.net
	if m.run.protocol.NewAmnesiac == nil || net.healed {
		return m.sync()
	}
	before := m.progress()
	if !net.percent(20) {
		return before
	}
	after := m.sync()
	if !after.Equal(before) {
		net.SyncLog(m.self)
	}
	return after
}

// learn adds the durable deliveries of messages to several groups from another machine, without the core. The
// core will deliver these messages once more.
func (m *machine) learn(from *machine) {
	for _, other := range from.lines {
		l := m.line(other.class)
		if other.durable <= l.durable || len(other.class.Groups()) < 2 {
			continue
		}
		l.durable, m.learned = other.durable, true
		for _, at := range other.history[min(len(l.history), l.durable):l.durable] {
			l.history = append(l.history, at)
			m.run.transferred(m.self, at)
		}
		m.run.net.mark(Learned)
	}
}

// isAheadOf reports whether m has learned deliveries that another machine has not made. A core does not know
// of them, so the state of the other machine must not replace m.
func (m *machine) isAheadOf(other *machine) bool {
	return m.learned && slices.ContainsFunc(m.lines, func(l *line) bool { return l.durable > other.line(l.class).applied })
}

// apply adds one delivery, or compares it with the same delivery before a restart.
func (m *machine) apply(d *multicast.Delivery) {
	at, l := d.Position(), m.line(m.run.classOf(d.Dest))
	if l.applied < len(l.history) {
		if again := l.history[l.applied]; again != at {
			m.run.violate("repetition", m.self, d.ID,
				"process %d delivered %v where it had delivered %v before its restart", m.self, at, again)
		}
		l.applied++
		m.run.reach.Repeated++
		return
	}
	if safe := max(m.safe, l.safe); at.Final <= safe {
		m.run.violate("safe", m.self, d.ID,
			"process %d delivered message %v with final timestamp %d after it had said that %d is safe", m.self, d.ID, at.Final, safe)
	}
	l.history = append(l.history, at)
	l.applied++
	m.run.delivered(m.self, d)
}

// classOf returns the class of messages with these destinations, or "" if the protocol has no classes.
func (r *run) classOf(dest []multicast.GroupID) multicast.Class {
	if r.protocol.SafeOf == nil {
		return ""
	}
	return multicast.ClassOf(dest)
}

// coreNode is a protocol core with its machine, as a turn.Node: all workloads of Run go through it.
type coreNode struct {
	core    multicast.Core
	machine *machine
	safes   [][]multicast.Timestamp // for each step that is not released yet: SafeOf of each of run.classes
}

// Step implements turn.Node.
func (c *coreNode) Step(in *turn.Input, out *turn.Output) {
	in.Covered = c.machine.syncAfterLog()
	c.core.Step(&in.Input, &out.Output)
	r := c.machine.run
	if r.protocol.Size != nil {
		r.size = max(r.size, r.protocol.Size(c.core))
	}
	if r.protocol.SafeOf != nil {
		var safes []multicast.Timestamp
		for _, class := range r.classes {
			safes = append(safes, r.protocol.SafeOf(c.core, class))
		}
		c.safes = append(c.safes, safes)
	}
}

// Syncs implements turn.Node.
func (*coreNode) Syncs(*turn.Output) bool { return false }

// Apply implements turn.Node.
func (c *coreNode) Apply(out *turn.Output) ([]turn.Call, error) {
	for i := range out.Deliveries {
		c.machine.apply(&out.Deliveries[i])
	}
	c.machine.safe = max(c.machine.safe, out.Safe)
	if len(c.safes) > 0 {
		for i, safe := range c.safes[0] {
			l := c.machine.line(c.machine.run.classes[i])
			l.safe = max(l.safe, safe)
		}
		c.safes = c.safes[1:]
	}
	if len(out.Behind) > 0 {
		c.machine.run.transferLater(c.machine.self)
	}
	if out.Retired {
		c.machine.run.retire(c.machine.self)
	}
	if out.Checkpoint {
		c.machine.run.reach.Checkpoints++
	}
	return nil, nil
}

// Wake implements turn.Node.
func (c *coreNode) Wake() time.Duration { return 0 }

// violate records a violation that a machine has found and that the History does not show.
func (r *run) violate(property string, p multicast.ProcessID, id multicast.MessageID, format string, args ...any) {
	r.violations = append(r.violations, check.Violation{
		Property: property, Detail: fmt.Sprintf(format, args...),
		Processes: []multicast.ProcessID{p}, Messages: []multicast.MessageID{id},
	})
}

// transferred records that the state machine of p holds a new message.
func (r *run) transferred(p multicast.ProcessID, at multicast.Position) *sent {
	r.history.Deliveries = append(r.history.Deliveries, check.Delivery{Process: p, ID: at.ID, Final: at.Final, At: r.net.Now()})
	s := r.sent[at.ID]
	if s != nil && r.net.groupOf(p) != nil {
		s.deliveries++ // only of initial members: the run does not wait for spares
		if r.evicted[p] {
			s.expected++ // leaveOut has subtracted this delivery
		}
	}
	return s
}

// delivered records a delivery that was not made before.
func (r *run) delivered(p multicast.ProcessID, d *multicast.Delivery) {
	r.react()
	s := r.transferred(p, d.Position())
	if s == nil {
		return // integrity reports it
	}
	r.highest = max(r.highest, d.Final)
	if !slices.Equal(s.Dest, d.Dest) || !bytes.Equal(s.Payload, d.Payload) {
		r.violate("content", p, d.ID,
			"process %d delivered message %v to %v with %d bytes, not as it was multicast to %v with %d bytes", p, d.ID, d.Dest, len(d.Payload), s.Dest, len(s.Payload))
	}
}
