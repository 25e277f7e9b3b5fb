package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// finish waits until all is delivered, lets the state machines become durable, and checks the messages that
// cores still keep.
func (r *run) finish() {
	if !r.settle() {
		return // the History shows the missing deliveries
	}
	if r.cfg.Faults.CrashAll > 0 && !r.restartAll() {
		return
	}
	for range closing {
		for _, id := range r.net.ids {
			r.net.Poke(id) // the state machine is durable, and the core learns that
		}
		up := slices.IndexFunc(r.workload.Senders, r.net.Up)
		if up < 0 {
			return // all processes that could still multicast were killed
		}
		r.multicast(r.workload.Senders[up], r.workload.Dest)
		if !r.settle() {
			return
		}
	}
	r.checkAtRest()
}

// patience is the number of time slices, each of several round trips, for a healed network: far more than a
// protocol needs that makes progress.
const patience = 2000

// settle runs until all required deliveries are made. It returns false if some are missing though no event is
// left, or patience has ended. A protocol with heartbeats is never quiet.
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

// restartAll stops all processes once more, with all messages delivered and some forgotten, and checks that
// the deliveries after that still fit.
func (r *run) restartAll() bool {
	r.net.RestartAll()
	r.net.Run(r.net.Now() + r.slice())
	for range 10 {
		r.multicastAny()
		r.net.Run(r.net.Now() + r.between(0, r.slice()/10))
	}
	return r.settle()
}

// closing is the number of last messages, to all destinations. They carry the news of durable state from
// every process to every other one, if the protocol lets such news wait for the next frame. At the end all
// but the last of them must be forgotten.
const closing = 4

// complete reports whether all required deliveries are made.
func (r *run) complete() bool {
	return r.replacing == 0 && len(r.changing) == 0 && r.unaware() == 0 && !slices.ContainsFunc(r.order, func(s *sent) bool { return s.deliveries < s.expected && (s.deliveries > 0 || !s.lost) })
}

// checkAtRest checks the cores with Protocol.AtRest.
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
