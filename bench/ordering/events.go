package ordering

import (
	"time"

	"github.com/globalfs/globalfs/internal/heap"
)

// event is something that happens at a time; events of the same time happen in the order in which they
// were scheduled.
type event struct {
	at   time.Duration
	seq  uint64
	what func()
}

// events are the scheduled events, the next one first.
type events = heap.Heap[event]

// Before implements heap.Item.
func (e event) Before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// Moved implements heap.Item.
func (event) Moved(int) {}
