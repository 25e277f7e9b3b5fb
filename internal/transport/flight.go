package transport

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
)

// flight holds the frames that are under way in a Local network with delays: a heap by
// time of arrival and one timer. The mutex of the network guards it.
type flight struct {
	land    func(localArrival)
	queue   heap.Heap[*inFlight]
	count   uint64 // orders frames that arrive at the same time
	timer   *time.Timer
	stopped bool
}

func newFlight(land func(localArrival)) *flight { return &flight{land: land} }

// add schedules frame a to arrive at time due.
func (f *flight) add(due time.Time, a localArrival, mu *sync.Mutex) {
	if f.stopped {
		return
	}
	f.count++
	f.queue.Push(&inFlight{due, f.count, a})
	if f.timer == nil {
		f.timer = time.AfterFunc(time.Until(due), func() {
			mu.Lock()
			defer mu.Unlock()
			f.arrive()
		})
	} else if f.queue[0].count == f.count {
		f.timer.Reset(time.Until(due))
	}
}

// arrive delivers all frames that are due, and sets the timer for the next one.
func (f *flight) arrive() {
	now := time.Now()
	for len(f.queue) > 0 && !f.queue[0].due.After(now) {
		f.land(f.queue.Pop().localArrival)
	}
	if len(f.queue) > 0 && !f.stopped {
		f.timer.Reset(time.Until(f.queue[0].due))
	}
}

func (f *flight) stop() {
	f.stopped = true
	f.queue = nil
	if f.timer != nil {
		f.timer.Stop()
	}
}

// inFlight is one frame that is under way.
type inFlight struct {
	due   time.Time
	count uint64
	localArrival
}

// Before implements heap.Item.
func (f *inFlight) Before(other *inFlight) bool {
	if f.due.Equal(other.due) {
		return f.count < other.count
	}
	return f.due.Before(other.due)
}

// Moved implements heap.Item.
func (*inFlight) Moved(int) {}
