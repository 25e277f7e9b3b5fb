package batching

import (
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	model "github.com/globalfs/globalfs/pkg/batching"
)

// event is something that happens at a time. Events of equal times happen in the order in which they were
// made.
type event struct {
	at     time.Duration
	number uint64
	do     func()
}

func (e *event) Before(o *event) bool { return e.at < o.at || e.at == o.at && e.number < o.number }

func (e *event) Moved(int) {}

// timeline is virtual time.
type timeline struct {
	now    time.Duration
	events heap.Heap[*event]
	made   uint64
}

func (t *timeline) at(at time.Duration, do func()) {
	t.made++
	t.events.Push(&event{at, t.made, do})
}

// next lets the next event happen.
func (t *timeline) next() {
	e := t.events.Pop()
	t.now = e.at
	e.do()
}

// resource works on one thing at a time.
type resource struct {
	free time.Duration // no work before
	busy time.Duration // sum since the warm-up
}

// use adds a piece of work that begins now, or when the resource is free. It returns the end of the work.
func (r *resource) use(now, work time.Duration) time.Duration {
	r.free = max(r.free, now) + work
	return r.free
}

// transfer is the time for which some bytes keep a link busy.
func transfer(s *model.System, bytes int) time.Duration {
	return time.Duration(float64(bytes) / s.Bandwidth * float64(time.Second))
}
