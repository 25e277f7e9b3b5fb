// Package progress counts the work of a long command for its display: the work fills a Meter, and the display
// reads the State.
package progress

import (
	"fmt"
	"sync"
)

// State is the progress of one step of the work.
type State struct {
	Doing string `json:"doing"`           // the step, for people
	Unit  string `json:"unit,omitempty"`  // of Done and Total, such as "blocks"; empty: the step counts nothing
	Done  uint64 `json:"done"`            // units
	Total uint64 `json:"total,omitempty"` // units, an estimate; 0: not known
}

// Meter holds the State of work. Its methods may be called concurrently. A nil Meter drops everything.
type Meter struct {
	mu    sync.Mutex
	state State // GUARDED_BY mu
}

// Begin begins a step that counts nothing.
func (m *Meter) Begin(format string, args ...any) {
	m.set(State{Doing: fmt.Sprintf(format, args...)})
}

// Count begins a step of total units; 0: the total is not known.
func (m *Meter) Count(total uint64, unit, format string, args ...any) {
	m.set(State{Doing: fmt.Sprintf(format, args...), Unit: unit, Total: total})
}

func (m *Meter) set(s State) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// Add counts units of the present step.
func (m *Meter) Add(units uint64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Done += units
}

// Reach sets the number of units of the present step, and its total.
func (m *Meter) Reach(done, total uint64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Done, m.state.Total = done, total
}

// State returns the present step; no Doing: there is none yet.
func (m *Meter) State() State {
	if m == nil {
		return State{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}
