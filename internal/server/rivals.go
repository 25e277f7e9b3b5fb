package server

import (
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

// While other clients work here, a request of a bound client counts rivalCost times in its rates. So a client
// that is alone can use the whole server, and a hostile one leaves the others their part of it.
const rivalCost = 2

// rivalFor is the time for which a client counts as working after a request.
const rivalFor = time.Second

// rivals knows the two clients that have made the last updates and queries. Requests without work, which idle
// mounts make too, do not count. A note that races with another one may be lost: the next one comes soon.
type rivals struct {
	epoch          time.Time
	latest, before atomic.Pointer[activity] // of different clients
}

// activity is the time of the last request of a client.
type activity struct {
	client string
	at     atomic.Int64 // since the epoch, in nanoseconds
}

// note notes a request of a client; the empty name is a process of the cluster.
func (r *rivals) note(client string, kind ask.Kind, now time.Time) {
	if client == "" || kind != ask.Update && kind != ask.Query {
		return
	}
	latest := r.latest.Load()
	if latest == nil || latest.client != client {
		mine := r.before.Load()
		if mine == nil || mine.client != client {
			mine = &activity{client: client}
		}
		r.before.Store(latest)
		r.latest.Store(mine)
		latest = mine
	}
	latest.at.Store(int64(now.Sub(r.epoch)))
}

// cost returns the number of times that a request of a client counts.
func (r *rivals) cost(client string, now time.Time) int {
	for _, other := range []*activity{r.latest.Load(), r.before.Load()} {
		if other != nil && other.client != client && now.Sub(r.epoch)-time.Duration(other.at.Load()) < rivalFor {
			return rivalCost
		}
	}
	return 1
}
