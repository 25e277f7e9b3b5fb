package cross

import (
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	// leaveToLeader is the time for which the other replicas leave to the leader the work that any replica
	// can do. stagger is added for each index of a replica, so that they do not all begin at once.
	leaveToLeader = time.Second
	stagger       = 300 * time.Millisecond
	// repeatAfter is the time after which a replica repeats a message that has had no effect.
	repeatAfter = 500 * time.Millisecond
)

// timer holds the time of the step, and the time of the next one, on the monotonic clock.
type timer struct {
	index  int // of this replica in its group
	now    time.Duration
	wakeAt time.Duration // 0: only after an event
}

// Begin sets the time of the step.
func (t *timer) Begin(now multicast.Instant) { t.now = now.Mono }

// Wake returns the time of the next step that Commands need, on the monotonic clock; 0: only after an event.
func (t *timer) Wake() time.Duration { return t.wakeAt }

// reset forgets the time of the next step. The work of this step sets it again.
func (t *timer) reset() { t.wakeAt = 0 }

// time returns the time of the step.
func (t *timer) time() time.Duration { return t.now }

// hurry requests a step at once.
func (t *timer) hurry() { t.wakeAt = max(t.now, 1) }

// wakeBy asks for a step at a time.
func (t *timer) wakeBy(at time.Duration) { t.wakeAt = order.Earliest(t.wakeAt, max(at, 1)) }

// patience returns the time until which this replica leaves work to the leader.
func (t *timer) patience() time.Duration {
	return t.now + leaveToLeader + stagger*time.Duration(t.index)
}

// again returns the time at which this replica repeats a message of this step that has had no effect.
func (t *timer) again() time.Duration { return t.now + repeatAfter + 4*stagger*time.Duration(t.index) }
