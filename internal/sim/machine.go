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

// machine is the state machine of a process: the list of what was delivered. It lives longer
// than the process. Of the list a first part is durable; after a restart
// the core must deliver the rest again, exactly as before.
type machine struct {
	run     *run
	self    multicast.ProcessID
	history []multicast.Position // all that was ever delivered
	applied int                  // of history, since the last start
	durable int                  // of history
	safe    multicast.Timestamp  // the highest Output.Safe that has left

	replaces     multicast.ProcessID // the member whose place a spare takes
	transferring bool                // the state of another process is on its way here
}

// position is how far the durable part goes.
func (m *machine) position() multicast.Position {
	if m.run.protocol.Conflicts != nil {
		return m.covered()
	}
	if m.durable == 0 {
		return multicast.Position{}
	}
	return m.history[m.durable-1]
}

// sync makes the list durable now and then, and always once faults have ended.
func (m *machine) sync() multicast.Position {
	if rng := m.run.net.Rand(); m.run.net.healed || rng.IntN(4) == 0 {
		m.durable += rng.IntN(m.applied - m.durable + 1)
	}
	if m.run.net.healed {
		m.durable = m.applied
	}
	return m.position()
}

// apply takes one delivery.
func (m *machine) apply(d *multicast.Delivery) {
	at := d.Position()
	if m.applied < len(m.history) {
		if again := m.history[m.applied]; again != at {
			m.run.violate("repetition", m.self, d.ID,
				"process %d delivered %v where it had delivered %v before its restart", m.self, at, again)
		}
		m.applied++
		m.run.reach.Repeated++
		return
	}
	if at.Final <= m.safe {
		m.run.violate("safe", m.self, d.ID,
			"process %d delivered message %v with final timestamp %d after it had said that %d is safe", m.self, d.ID, at.Final, m.safe)
	}
	m.history = append(m.history, at)
	m.applied++
	m.run.delivered(m.self, d)
}

// coreNode is a protocol core with its machine, as a turn.Node: all workloads of Run go through it.
type coreNode struct {
	core    multicast.Core
	machine *machine
}

// Step implements turn.Node.
func (c *coreNode) Step(in *turn.Input, out *turn.Output) {
	in.Covered = c.machine.sync()
	c.core.Step(&in.Input, &out.Output)
	if r := c.machine.run; r.protocol.Size != nil {
		r.size = max(r.size, r.protocol.Size(c.core))
	}
}

// Apply implements turn.Node.
func (c *coreNode) Apply(out *turn.Output) ([]turn.Call, error) {
	for i := range out.Deliveries {
		c.machine.apply(&out.Deliveries[i])
	}
	c.machine.safe = max(c.machine.safe, out.Safe)
	if out.Behind != (multicast.Position{}) {
		c.machine.run.transferLater(c.machine.self)
	}
	if out.Checkpoint {
		c.machine.run.reach.Checkpoints++
	}
	return nil, nil
}

// Wake implements turn.Node.
func (c *coreNode) Wake() time.Duration { return 0 }

// violate notes what the machines find and a History cannot tell.
func (r *run) violate(property string, p multicast.ProcessID, id multicast.MessageID, format string, args ...any) {
	r.violations = append(r.violations, check.Violation{
		Property: property, Detail: fmt.Sprintf(format, args...),
		Processes: []multicast.ProcessID{p}, Messages: []multicast.MessageID{id},
	})
}

// transferred notes that the state machine of p holds a message that it did not before.
func (r *run) transferred(p multicast.ProcessID, at multicast.Position) *sent {
	r.history.Deliveries = append(r.history.Deliveries, check.Delivery{Process: p, ID: at.ID, Final: at.Final, At: r.net.Now()})
	s := r.sent[at.ID]
	if s != nil && r.net.groupOf(p) != nil {
		s.by++ // what a spare delivers, nobody waits for
	}
	return s
}

// delivered notes a delivery that was not made before.
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
