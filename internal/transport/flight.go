package transport

import (
	"container/heap"
	"sync"
	"time"
)

// flight holds the frames that are under way in a Local network with delays: a heap by
// time of arrival and one timer. The mutex of the network guards it.
type flight struct {
	land    func(localArrival)
	queue   flightQueue
	count   uint64 // orders frames that arrive at the same time
	timer   *time.Timer
	stopped bool
}

func newFlight(land func(localArrival)) *flight { return &flight{land: land} }

// add lets a land at due.
func (f *flight) add(due time.Time, a localArrival, mu *sync.Mutex) {
	if f.stopped {
		return
	}
	f.count++
	heap.Push(&f.queue, inFlight{due, f.count, a})
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

// arrive lands all that is due and sets the timer for the next.
func (f *flight) arrive() {
	now := time.Now()
	for len(f.queue) > 0 && !f.queue[0].due.After(now) {
		f.land(heap.Pop(&f.queue).(inFlight).localArrival)
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

type inFlight struct {
	due   time.Time
	count uint64
	localArrival
}

// flightQueue is a heap.Interface.
type flightQueue []inFlight

func (q flightQueue) Len() int { return len(q) }
func (q flightQueue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].count < q[j].count
	}
	return q[i].due.Before(q[j].due)
}
func (q flightQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *flightQueue) Push(x any)   { *q = append(*q, x.(inFlight)) }
func (q *flightQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = inFlight{}
	*q = old[:len(old)-1]
	return last
}
