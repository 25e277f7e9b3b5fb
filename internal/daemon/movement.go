package daemon

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// stillAfter is the time for which the progress of replicas is remembered. A replica lags if it has not
// executed the commands that another replica had executed that long ago.
const stillAfter = 10 * time.Second

// movement remembers the recent progress of the replicas of a server.
type movement struct {
	mu       sync.Mutex
	replicas map[multicast.ProcessID]*moves // GUARDED_BY mu
}

// moves is the progress of one replica.
type moves struct {
	samples []progressAt // oldest first; only the first one may be older than stillAfter
	moved   time.Time    // when the present number of commands was first seen
}

type progressAt struct {
	at      time.Time
	applied uint64
}

// note records the numbers of commands that the replicas have executed at a time. It forgets replicas that
// are not in all.
func (m *movement) note(now time.Time, all map[multicast.ProcessID]uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.replicas
	m.replicas = map[multicast.ProcessID]*moves{}
	for process, applied := range all {
		r := known[process]
		if r == nil {
			r = &moves{moved: now}
		} else if applied != r.samples[len(r.samples)-1].applied {
			r.moved = now
		}
		r.samples = append(r.samples, progressAt{now, applied})
		for len(r.samples) > 1 && now.Sub(r.samples[1].at) >= stillAfter {
			r.samples = r.samples[1:]
		}
		m.replicas[process] = r
	}
}

// of returns the number of commands that a replica had executed stillAfter ago, 0 if the replica is not known
// for that long, and the time since its last progress.
func (m *movement) of(p multicast.ProcessID, now time.Time) (before uint64, still time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.replicas[p]
	if r == nil {
		return 0, 0
	}
	if first := r.samples[0]; now.Sub(first.at) >= stillAfter {
		before = first.applied
	}
	return before, now.Sub(r.moved)
}
