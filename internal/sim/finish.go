package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// finish waits until all messages are delivered, makes the state machines durable, and checks the messages
// that cores still keep.
func (r *run) finish() {
	if !r.settle() {
		return // the History shows the missing deliveries
	}
	if r.cfg.Faults.CrashAll > 0 && !r.restartAll() {
		return
	}
	for range closing {
		for _, id := range r.net.ids {
			r.net.Poke(id) // the core learns that the state machine is durable
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

// patience is the number of time slices after which a healed network must have delivered all messages. Each
// slice has several round trips. A protocol that makes progress needs far fewer.
const patience = 2000

// settle runs the network until all required deliveries are made. It returns false if deliveries are missing
// although no event is left, or after patience slices: a protocol with heartbeats always has events.
func (r *run) settle() bool {
	for range patience {
		if more := r.net.Run(r.net.Now() + r.slice()); !more || r.complete() {
			break
		}
	}
	return r.complete()
}

// slice returns the length of a time slice, which is at least the longest timeout of the protocols.
func (r *run) slice() time.Duration {
	return 20*max(r.cfg.LatencyMax, time.Millisecond) + r.cfg.DiskMax
}

// restartAll restarts all processes once more, after all messages were delivered and cores have forgotten
// some of them. It checks that the repeated deliveries are correct.
func (r *run) restartAll() bool {
	r.net.RestartAll()
	r.net.Run(r.net.Now() + r.slice())
	for range 10 {
		r.multicastAny()
		r.net.Run(r.net.Now() + r.between(0, r.slice()/10))
	}
	return r.settle()
}

// closing is the number of last messages, each to all destinations. They carry the reports of durable state
// between all processes, if a protocol sends such reports only with other frames. At the end, cores must have
// forgotten all messages except the last ones.
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
