package replica

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A command of several partitions is proposed only once a quorum of each is in reach: what is in the order
// between partitions cannot be taken out again, and holds up what comes after it there. So where a network is cut, such
// commands wait outside, and end with their clients' patience, without a trace.

const (
	inReach       = 2 * time.Second // since a process was heard
	pingAgain     = 300 * time.Millisecond
	reachPatience = 8 * time.Second // then the client asks again
)

// heardFrom notes that a process lives and can be reached.
func (r *Replica) heardFrom(p multicast.ProcessID) { r.heard[p] = r.now.Mono }

// reachable reports whether a quorum of each of the partitions was heard lately.
func (r *Replica) reachable(partitions []uint16) bool {
	for _, p := range partitions {
		count, members := 0, r.members(p)
		for _, member := range members {
			if at, ok := r.heard[member]; member == r.cfg.Self || ok && r.now.Mono-at < inReach {
				count++
			}
		}
		if count <= len(members)/2 {
			return false
		}
	}
	return true
}

// inReachOrAsk reports whether a quorum of each of the partitions was heard lately, and asks them if not.
func (r *Replica) inReachOrAsk(partitions []uint16) bool {
	if r.reachable(partitions) {
		return true
	}
	r.unheard = append(r.unheard, partitions...)
	return false
}

// pursueReach lets requests in whose parties are in reach, and asks the others whether they are.
func (r *Replica) pursueReach() {
	waiting := r.outside
	r.outside = nil
	for _, o := range waiting {
		switch {
		case r.inReachOrAsk(o.query.Dest):
			r.proposeCommand(o.call, o.key, &o.query)
		case r.now.Mono-o.since > reachPatience:
			r.late = append(r.late, r.reply(o.call.Token, ask.Overloaded, nil))
		default:
			r.outside = append(r.outside, o)
		}
	}
	if len(r.unheard) == 0 {
		return
	}
	if r.now.Mono >= r.pingAt {
		r.pingAt = r.now.Mono + pingAgain
		r.ping()
	}
	r.unheard = r.unheard[:0]
	r.pursueBy(r.pingAt)
}

// ping asks all processes that are waited for.
func (r *Replica) ping() {
	slices.Sort(r.unheard)
	for _, p := range slices.Compact(r.unheard) {
		for _, member := range r.members(p) {
			r.tell(member, []byte{byte(messagePing)})
		}
	}
}
