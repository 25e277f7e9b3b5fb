package sim

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// This file is what changes for a protocol that orders only messages that conflict (Protocol.Conflicts, T
// 4.4.3). Processes deliver those that commute in any order, so positions ascend among conflicting messages
// only, and there are two meanings of how far a state machine is: which deliveries it holds, and up to which
// position it holds all. The core is told the latter. All other promises stand: in particular nothing at or
// below Output.Safe is delivered any more.

// validateConflicts refuses restarts. After one a core delivers again all above the position that is covered,
// of which the state machine may hold some, in another order: that a repetition is exact is no longer what to
// look at.
func (p *Protocol) validateConflicts(cfg *Config) error {
	if f := &cfg.Faults; p.Conflicts != nil && (f.Crash+f.CrashAll+f.Chase > 0 || len(cfg.Spares) > 0) {
		return fmt.Errorf("sim: Protocol.Conflicts with processes that restart or are replaced: leave Crash, CrashAll, Chase and Spares out")
	}
	return nil
}

// conflict is that of the History.
func (r *run) conflict(a, b multicast.MessageID) bool {
	m, o := r.sent[a], r.sent[b]
	return m == nil || o == nil || r.protocol.Conflicts(&m.Message, &o.Message) // integrity reports what was not sent
}

// covered is the highest position of a delivery up to which all is durable: the process has said that nothing
// there is still to come, and nothing there is still being written.
func (m *machine) covered() (at multicast.Position) {
	l := m.line("")
	durable, volatile := l.history[:l.durable], l.history[l.durable:l.applied]
	for _, p := range durable {
		if p.Final > m.safe || p.Compare(at) <= 0 {
			continue
		}
		if !precedes(volatile, p) {
			at = p
		}
	}
	return at
}

// precedes reports whether some of the positions is below p.
func precedes(positions []multicast.Position, p multicast.Position) bool {
	for _, other := range positions {
		if other.Compare(p) < 0 {
			return true
		}
	}
	return false
}
