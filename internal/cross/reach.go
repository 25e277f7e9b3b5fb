package cross

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// An update of several partitions is proposed only when a quorum of each party is in reach: a message cannot
// be withdrawn from the order between partitions, and later messages with the same parties wait until it is
// delivered. So when the network is cut, most such updates wait at the asked replica. When their calls end,
// nothing is left of them.

const (
	inReach   = 2 * time.Second        // a process is in reach for this time after its last message
	pingAgain = 300 * time.Millisecond // between two pings of a process
	// pongWithin is the time limit for the answer to the first ping after a silence. Until then the process
	// counts as in reach, so that the first update after a pause need not wait.
	pongWithin = time.Second
)

// reach decides which processes this replica can exchange messages with.
type reach struct {
	self   multicast.ProcessID
	orders *order.Orders
	timer  *timer

	lastReceived map[multicast.ProcessID]time.Duration // the time of the last message of each process
	pingedSince  map[multicast.ProcessID]time.Duration // the time of the first ping after that message
	toPing       []uint16                              // partitions with silent replicas, to be pinged in this step
	pingAt       time.Duration                         // the earliest time of the next pings
}

// Received records that a process is alive and in reach.
func (r *reach) Received(p multicast.ProcessID) {
	r.lastReceived[p] = r.timer.time()
	delete(r.pingedSince, p)
}

// isReachable reports whether a quorum of each partition is in reach.
func (r *reach) isReachable(partitions []uint16) bool {
	for _, p := range partitions {
		count, members := 0, r.orders.Members(p)
		for _, member := range members {
			if member == r.self || r.isInReach(member) {
				count++
			}
		}
		if count <= len(members)/2 {
			return false
		}
	}
	return true
}

// isSilent reports whether no message of a process has come in the last inReach.
func (r *reach) isSilent(p multicast.ProcessID) bool {
	at, ok := r.lastReceived[p]
	return !ok || r.timer.time()-at >= inReach
}

// isInReach reports whether a process is not silent, was not pinged since its last message, or has time left
// to answer the ping.
func (r *reach) isInReach(p multicast.ProcessID) bool {
	at, pinged := r.pingedSince[p]
	return !r.isSilent(p) || !pinged || r.timer.time()-at < pongWithin
}

// pingSilent reports whether a quorum of each partition is in reach. The silent replicas of the partitions
// are pinged at the end of the step.
func (r *reach) pingSilent(partitions []uint16) bool {
	for _, p := range partitions {
		for _, member := range r.orders.Members(p) {
			if member != r.self && r.isSilent(member) {
				r.toPing = append(r.toPing, p)
				break
			}
		}
	}
	return r.isReachable(partitions)
}

// ping pings the silent replicas that pingSilent has found in this step.
func (r *reach) ping() {
	if len(r.toPing) == 0 {
		return
	}
	if now := r.timer.time(); now >= r.pingAt {
		r.pingAt = now + pingAgain
		slices.Sort(r.toPing)
		for _, p := range slices.Compact(r.toPing) {
			for _, member := range r.orders.Members(p) {
				if member == r.self || !r.isSilent(member) {
					continue
				}
				if _, pinged := r.pingedSince[member]; !pinged {
					r.pingedSince[member] = now
				}
				r.orders.Send(member, []byte{byte(messagePing)})
			}
		}
	}
	r.toPing = r.toPing[:0]
	r.timer.wakeBy(r.pingAt)
}
