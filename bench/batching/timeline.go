package batching

import (
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	model "github.com/globalfs/globalfs/pkg/batching"
)

// timeline is virtual time.
type timeline struct {
	now    time.Duration
	events heap.Timeline
}

func (t *timeline) at(at time.Duration, do func()) { t.events.Add(at, do) }

// next lets the next event happen.
func (t *timeline) next() {
	e := t.events.Pop()
	t.now = e.At
	e.Do()
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

// transfer returns the time for which some bytes keep a link busy.
func transfer(s *model.System, bytes int) time.Duration {
	return time.Duration(float64(bytes) / s.Bandwidth * float64(time.Second))
}
