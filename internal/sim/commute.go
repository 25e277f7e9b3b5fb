package sim

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// This file contains the differences for a protocol that orders only messages that conflict
// (Protocol.Conflicts, T 4.4.3). Processes deliver commuting messages in any order, so positions ascend among
// conflicting messages only. The progress of a state machine has two meanings: the set of deliveries that it
// holds, and the position up to which it holds all deliveries. The core gets the latter. All other promises
// stand: in particular no delivery at or below Output.Safe follows.

// validateConflicts refuses restarts. After a restart a core delivers again all messages above the covered
// position. The state machine may hold some of them, in another order, so the exact repetition of deliveries
// is not a valid check.
func (p *Protocol) validateConflicts(cfg *Config) error {
	if f := &cfg.Faults; p.Conflicts != nil && (f.Crash+f.CrashAll+f.Chase > 0 || len(cfg.Spares) > 0) {
		return fmt.Errorf("sim: Protocol.Conflicts with processes that restart or are replaced: leave Crash, CrashAll, Chase and Spares out")
	}
	return nil
}

// conflict implements History.Conflict.
func (r *run) conflict(a, b multicast.MessageID) bool {
	m, o := r.sent[a], r.sent[b]
	// Integrity reports messages that were not sent.
	return m == nil || o == nil || r.protocol.Conflicts(&m.Message, &o.Message)
}

// covered returns the highest position of a delivery up to which all is durable: the process has announced
// that no delivery below is still to come, and no delivery below is still being written.
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
