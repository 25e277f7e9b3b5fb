package cross

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// An update of several partitions is proposed only when a quorum of each party is in reach: the order between
// partitions cannot take a message back, and messages with the same parties wait behind it. So in a network
// cut most such updates wait at the asked replica, and leave nothing behind when their calls end.

const (
	inReach   = 2 * time.Second // since a process was last received from
	pingAgain = 300 * time.Millisecond
	// pongWithin is the time within which a process answers that was silent. Until then it counts as in
	// reach, so that the first update after a pause need not wait.
	pongWithin = time.Second
)

// reach knows the processes with which this replica can exchange messages.
type reach struct {
	self   multicast.ProcessID
	orders *order.Orders
	timer  *timer

	lastReceived map[multicast.ProcessID]time.Duration // when each process was last received from
	pingedSince  map[multicast.ProcessID]time.Duration // when each was first pinged since then
	toPing       []uint16                              // partitions of updates, to be pinged
	pingAt       time.Duration
}

// Received records that a process is alive and in reach.
func (r *reach) Received(p multicast.ProcessID) {
	r.lastReceived[p] = r.timer.time()
	delete(r.pingedSince, p)
}

// isReachable reports whether a quorum of each partition is in reach: a process was received from lately, was
// not pinged since, or may still answer a ping.
func (r *reach) isReachable(partitions []uint16) bool {
	for _, p := range partitions {
		count, members := 0, r.orders.Members(p)
		for _, member := range members {
			if member == r.self || r.mayAnswer(member) {
				count++
			}
		}
		if count <= len(members)/2 {
			return false
		}
	}
	return true
}

// isHeard reports whether a process was received from lately.
func (r *reach) isHeard(p multicast.ProcessID) bool {
	at, ok := r.lastReceived[p]
	return ok && r.timer.time()-at < inReach
}

// mayAnswer reports whether a process was received from lately, or has time left to answer a ping.
func (r *reach) mayAnswer(p multicast.ProcessID) bool {
	at, asked := r.pingedSince[p]
	return r.isHeard(p) || !asked || r.timer.time()-at < pongWithin
}

// orAsk reports whether a quorum of each partition is in reach. It makes ask ping silent processes.
func (r *reach) orAsk(partitions []uint16) bool {
	for _, p := range partitions {
		for _, member := range r.orders.Members(p) {
			if member != r.self && !r.isHeard(member) {
				r.toPing = append(r.toPing, p)
				break
			}
		}
	}
	return r.isReachable(partitions)
}

// ask pings the silent replicas of the partitions that updates wait for.
func (r *reach) ask() {
	if len(r.toPing) == 0 {
		return
	}
	if now := r.timer.time(); now >= r.pingAt {
		r.pingAt = now + pingAgain
		slices.Sort(r.toPing)
		for _, p := range slices.Compact(r.toPing) {
			for _, member := range r.orders.Members(p) {
				if member == r.self || r.isHeard(member) {
					continue
				}
				if _, asked := r.pingedSince[member]; !asked {
					r.pingedSince[member] = now
				}
				r.orders.Send(member, []byte{byte(messagePing)})
			}
		}
	}
	r.toPing = r.toPing[:0]
	r.timer.wakeBy(r.pingAt)
}
