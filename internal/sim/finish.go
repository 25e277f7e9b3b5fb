package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// finish waits until all is delivered, lets the state machines become durable, and looks at
// what is still kept.
func (r *run) finish() {
	if !r.settle() {
		return // the History shows what is missing
	}
	if r.cfg.Faults.CrashAll > 0 && !r.restartAll() {
		return
	}
	for range closing {
		for _, id := range r.net.ids {
			r.net.Poke(id) // the state machine is durable, the core hears of it
		}
		up := slices.IndexFunc(r.workload.Senders, r.net.Up)
		if up < 0 {
			return // all that could still multicast were killed
		}
		r.multicast(r.workload.Senders[up], r.workload.Dest)
		if !r.settle() {
			return
		}
	}
	r.checkAtRest()
}

// patience is how many slices of time, each of several round trips, a healed network gets:
// far more than a protocol needs that makes progress.
const patience = 2000

// settle runs until all is delivered that has to be; false if it is not though nothing happens any more, or
// patience has ended. A protocol with heartbeats is never quiet.
func (r *run) settle() bool {
	for range patience {
		if more := r.net.Run(r.net.Now() + r.slice()); !more || r.complete() {
			break
		}
	}
	return r.complete()
}

// slice is at least as long as the timeouts of protocols, so that patience is many of these.
func (r *run) slice() time.Duration {
	return 20*max(r.cfg.LatencyMax, time.Millisecond) + r.cfg.DiskMax
}

// restartAll stops everything once more, with all delivered and some of it forgotten, and
// looks whether what comes then still fits.
func (r *run) restartAll() bool {
	r.net.RestartAll()
	r.net.Run(r.net.Now() + r.slice())
	for range 10 {
		r.multicastAny()
		r.net.Run(r.net.Now() + r.between(0, r.slice()/10))
	}
	return r.settle()
}

// closing messages to all destinations carry the news of what is durable from everybody to
// everybody, if the protocol lets such news wait for the next frame. At the end all but the
// last of them must be forgotten.
const closing = 4

// complete reports whether all is delivered that has to be.
func (r *run) complete() bool {
	return r.replacing == 0 && len(r.changing) == 0 && r.unaware() == 0 && !slices.ContainsFunc(r.order, func(s *sent) bool { return s.by < s.of && (s.by > 0 || !s.lost) })
}

// checkAtRest looks at the cores.
func (r *run) checkAtRest() {
	if r.protocol.AtRest == nil {
		return
	}
	for _, id := range r.net.ids {
		node, up := r.net.Node(id).(*coreNode)
		if !up {
			continue
		}
		if err := r.protocol.AtRest(node.core); err != nil {
			r.violate("at rest", id, multicast.MessageID{}, "process %d: %v", id, err)
		}
	}
}
