package cross

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// relays are the deliveries of the order between partitions that are to be relayed, by class.
type relays struct {
	executed multicast.Progress // of each class, relayed and executed: replicated state
	queues   []*relayQueue      // by class
}

// relayQueue holds deliveries of one class that are not executed yet, in their order.
type relayQueue struct {
	class   multicast.Class
	waiting []queuedRelay
	retryAt time.Duration // when another replica than the leader proposes them
}

type queuedRelay struct {
	relay    relay
	proposed multicast.MessageID
}

// queue returns the queue of a class.
func (r *relays) queue(class multicast.Class) *relayQueue {
	i, found := slices.BinarySearchFunc(r.queues, class, func(q *relayQueue, class multicast.Class) int {
		return cmp.Compare(q.class, class)
	})
	if !found {
		r.queues = slices.Insert(r.queues, i, &relayQueue{class: class})
	}
	return r.queues[i]
}

// Relay takes a delivery of the order between partitions, which is to be relayed.
func (c *Commands) Relay(d *multicast.Delivery) {
	w := relay{at: d.Position(), payload: d.Payload}
	for _, g := range d.Dest {
		w.parties = append(w.parties, uint16(g))
	}
	class := c.orders.Class(w.parties, d.ID)
	q := c.relays.queue(class)
	last := c.relays.executed.Of(class)
	if n := len(q.waiting); n > 0 {
		last = q.waiting[n-1].relay.at
	}
	if d.Position().Compare(last) <= 0 {
		return
	}
	if len(q.waiting) == 0 {
		q.retryAt = c.patience()
	}
	q.waiting = append(q.waiting, queuedRelay{relay: w})
	c.hurry()
}

// proposeRelays proposes the relays that are not proposed yet: the leader at once, another replica after a
// while.
func (c *Commands) proposeRelays(leads bool) {
	c.relayed = 0
	c.relays.queues = slices.DeleteFunc(c.relays.queues, func(q *relayQueue) bool { return len(q.waiting) == 0 })
	for _, q := range c.relays.queues {
		propose := leads
		if c.now.Mono >= q.retryAt {
			propose = true
			q.retryAt = c.patience()
		}
		c.wakeBy(q.retryAt)
		if !propose {
			continue
		}
		previous := c.relays.executed.Of(q.class)
		for i := range q.waiting {
			w := &q.waiting[i]
			if c.relayed >= maxSent {
				c.hurry()
				return
			}
			if !c.orders.Pending(w.proposed) {
				c.relayed += len(w.relay.payload)
				w.relay.previous = previous
				w.proposed = c.proposeEntry(EntryRelay, w.relay.encode())
			}
			previous = w.relay.at
		}
	}
}

// executeRelay executes a relay if it follows the last one of its class (X2).
func (c *Commands) executeRelay(body []byte) error {
	d, err := readRelay(body)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	class := c.orders.Class(d.parties, d.at.ID)
	if last := c.relays.executed.Of(class); d.previous != last || d.at.Compare(last) <= 0 {
		return nil
	}
	c.relays.executed.Advance(class, d.at)
	c.moved = true
	q := c.relays.queue(class)
	for len(q.waiting) > 0 && q.waiting[0].relay.at.Compare(d.at) <= 0 {
		q.waiting = q.waiting[1:]
		q.retryAt = c.patience()
	}
	e, err := order.DecodeEntry(d.payload)
	if err == nil && e.Kind != EntryCommand {
		err = fmt.Errorf("%w: kind %d between partitions", order.ErrVersion, e.Kind)
	}
	if err != nil {
		return err
	}
	return c.begin(&d, &e)
}
