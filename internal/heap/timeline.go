package heap

import "time"

// Event is something that happens at a time.
type Event struct {
	At  time.Duration
	Do  func()
	seq uint64
}

// Before implements Item.
func (e Event) Before(other Event) bool {
	return e.At < other.At || e.At == other.At && e.seq < other.seq
}

// Moved implements Item.
func (Event) Moved(int) {}

// Timeline has the events of a simulator. Events of equal times come in the order in which they were added.
// The zero Timeline is empty.
type Timeline struct {
	events Heap[Event]
	seq    uint64 // of the last event added
}

// Add adds an event.
func (t *Timeline) Add(at time.Duration, do func()) {
	t.seq++
	t.events.Push(Event{At: at, Do: do, seq: t.seq})
}

// Next returns the time of the next event; false: there is none.
func (t *Timeline) Next() (at time.Duration, ok bool) {
	if len(t.events) == 0 {
		return 0, false
	}
	return t.events[0].At, true
}

// Pop removes the next event and returns it. It panics if there is none.
func (t *Timeline) Pop() Event { return t.events.Pop() }
