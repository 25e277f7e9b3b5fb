package tram

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// State returns the state of the core that another member needs beside the state machine, if it is new or too
// far behind (Output.Behind). It matches the state machine only when all steps so far are durable and
// applied. A process that is behind itself has no usable state.
func (c *Core) State() []byte { return c.appendLedger(nil) }

// Adopt takes over a state of another member. It returns the record that must replace all records of this
// process once the state machine is replaced, and the progress of that state machine. Then the process
// restarts with both as a new life that has lost nothing. It keeps its promises, and the entries that it
// holds after the state. After an error the caller tries the state of another member, or a later state of the
// same one.
func (c *Core) Adopt(state []byte) (record []byte, at multicast.Progress, err error) {
	cfg := c.cfg
	cfg.Amnesiac = false
	other, err := New(cfg)
	if err != nil {
		return nil, nil, err
	}
	r := &reader{b: state, ok: true}
	if err = other.replayLedger(r); err == nil && (!r.ok || len(r.b) > 0) {
		err = fmt.Errorf("it is damaged")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tram: state of %d bytes: %w", len(state), err)
	}
	applied := other.ledger.base + uint64(len(other.log.replayed))
	if applied < max(c.ledger.applied, c.needsState) {
		return nil, nil, fmt.Errorf("tram: state of %d bytes: it is applied up to %d, this process is at %d and needs %d: ask another member, or later",
			len(state), applied, c.ledger.applied, c.needsState)
	}
	return c.appendOwn(append([]byte{recordCheckpoint}, state...), applied), multicast.UpTo(other.delivered), nil
}
