package cross

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// An update of several partitions is proposed only when a quorum of each party is in reach: the order between
// partitions cannot take a message back, and messages with the same parties wait behind it. So in a network
// cut most such updates wait at the asked replica, and leave nothing behind when their calls end.

const (
	inReach   = 2 * time.Second // since a process was last received from
	pingAgain = 300 * time.Millisecond
	// pongWithin is the time within which a process answers that was silent. Until then it counts as in reach,
	// so that the first update after a pause need not wait.
	pongWithin = time.Second
)

// reach is which processes this replica can exchange messages with.
type reach struct {
	last   map[multicast.ProcessID]time.Duration // when each process was last received from
	asked  map[multicast.ProcessID]time.Duration // when each was first pinged since then
	wanted []uint16                              // partitions of updates, to be pinged
	pingAt time.Duration
}

// Received notes that a process is alive and in reach.
func (c *Commands) Received(p multicast.ProcessID) {
	c.reach.last[p] = c.now.Mono
	delete(c.reach.asked, p)
}

// isReachable reports whether a quorum of each partition was received from lately, or is silent without
// having been asked.
func (c *Commands) isReachable(partitions []uint16) bool {
	for _, p := range partitions {
		count, members := 0, c.orders.Members(p)
		for _, member := range members {
			if member == c.cfg.Self || c.reach.mayAnswer(member, c.now.Mono) {
				count++
			}
		}
		if count <= len(members)/2 {
			return false
		}
	}
	return true
}

func (r *reach) isHeard(p multicast.ProcessID, now time.Duration) bool {
	at, ok := r.last[p]
	return ok && now-at < inReach
}

func (r *reach) mayAnswer(p multicast.ProcessID, now time.Duration) bool {
	at, asked := r.asked[p]
	return r.isHeard(p, now) || !asked || now-at < pongWithin
}

// inReachOrAsk reports whether a quorum of each partition is in reach. It has silent processes asked.
func (c *Commands) inReachOrAsk(partitions []uint16) bool {
	for _, p := range partitions {
		for _, member := range c.orders.Members(p) {
			if member != c.cfg.Self && !c.reach.isHeard(member, c.now.Mono) {
				c.reach.wanted = append(c.reach.wanted, p)
				break
			}
		}
	}
	return c.isReachable(partitions)
}

// askReach pings the silent replicas of the partitions that updates wait for.
func (c *Commands) askReach() {
	r := &c.reach
	if len(r.wanted) == 0 {
		return
	}
	if c.now.Mono >= r.pingAt {
		r.pingAt = c.now.Mono + pingAgain
		slices.Sort(r.wanted)
		for _, p := range slices.Compact(r.wanted) {
			for _, member := range c.orders.Members(p) {
				if member == c.cfg.Self || r.isHeard(member, c.now.Mono) {
					continue
				}
				if _, asked := r.asked[member]; !asked {
					r.asked[member] = c.now.Mono
				}
				c.orders.Send(member, []byte{byte(messagePing)})
			}
		}
	}
	r.wanted = r.wanted[:0]
	c.wakeBy(r.pingAt)
}
