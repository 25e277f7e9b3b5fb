package cross

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// relays are the deliveries of the order between partitions that are not in the own order yet, and the
// position of each class: that of the last delivery of the class whose relay was executed.
type relays struct {
	keys   meta.Keys
	orders *order.Orders
	gate   *gate
	timer  *timer

	number   uint64             // of the newest command: replicated state
	executed multicast.Progress // of each class, relayed and executed: replicated state
	moved    bool               // number or executed have changed since the last call of save
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

var stateKey = []byte{0x46}

// readState reads the newest number, and the positions of the classes.
func readState(keys meta.Keys) (number uint64, relayed multicast.Progress, err error) {
	b := keys.Get(stateKey)
	if b == nil {
		return 0, nil, nil
	}
	r := varint.NewReader(b)
	number, relayed = r.Uint64(), ask.ReadProgress(r)
	if err := r.Done(); err != nil {
		return 0, nil, fmt.Errorf("stored positions of commands of several partitions: %w", err)
	}
	return number, relayed, nil
}

// Relayed returns the positions of the classes that keys hold: the order between partitions must deliver from
// there on.
func Relayed(keys meta.Keys) (multicast.Progress, error) {
	_, relayed, err := readState(keys)
	return relayed, err
}

// Relayed returns the positions of the classes in the state.
func (r *relays) Relayed() multicast.Progress { return slices.Clone(r.executed) }

// load reads the positions of the classes, and the newest number.
func (r *relays) load() (err error) {
	r.number, r.executed, err = readState(r.keys)
	return err
}

// save stores the positions of the classes and the newest number, if they have changed.
func (r *relays) save() {
	if r.moved {
		r.moved = false
		r.keys.Set(stateKey, ask.AppendProgress(varint.AppendUint(nil, r.number), r.executed))
	}
}

// next returns the number of a new command.
func (r *relays) next() uint64 {
	r.number++
	return r.number
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
func (r *relays) Relay(d *multicast.Delivery) {
	w := relay{at: d.Position(), payload: d.Payload}
	for _, g := range d.Dest {
		w.parties = append(w.parties, uint16(g))
	}
	class := r.orders.Class(w.parties, d.ID)
	q := r.queue(class)
	last := r.executed.Of(class)
	if n := len(q.waiting); n > 0 {
		last = q.waiting[n-1].relay.at
	}
	if d.Position().Compare(last) <= 0 {
		return
	}
	if len(q.waiting) == 0 {
		q.retryAt = r.timer.patience()
	}
	q.waiting = append(q.waiting, queuedRelay{relay: w})
	r.timer.hurry()
}

// propose proposes the relays that are not proposed yet: the leader at once, another replica after a
// while.
func (r *relays) propose(leads bool) {
	size := 0
	r.queues = slices.DeleteFunc(r.queues, func(q *relayQueue) bool { return len(q.waiting) == 0 })
	for _, q := range r.queues {
		propose := leads
		if r.timer.time() >= q.retryAt {
			propose = true
			q.retryAt = r.timer.patience()
		}
		r.timer.wakeBy(q.retryAt)
		if !propose {
			continue
		}
		previous := r.executed.Of(q.class)
		for i := range q.waiting {
			w := &q.waiting[i]
			if size >= maxSent {
				r.timer.hurry()
				return
			}
			if !r.orders.Pending(w.proposed) {
				size += len(w.relay.payload)
				w.relay.previous = previous
				w.proposed = r.gate.propose(EntryRelay, w.relay.encode())
			}
			previous = w.relay.at
		}
	}
}

// advance moves the position of a class to a relay that is being executed. It returns false if the relay does
// not follow the last one of its class: then it has no effect (X2).
func (r *relays) advance(d *relay) bool {
	class := r.orders.Class(d.parties, d.at.ID)
	if last := r.executed.Of(class); d.previous != last || d.at.Compare(last) <= 0 {
		return false
	}
	r.executed.Advance(class, d.at)
	r.moved = true
	q := r.queue(class)
	for len(q.waiting) > 0 && q.waiting[0].relay.at.Compare(d.at) <= 0 {
		q.waiting = q.waiting[1:]
		q.retryAt = r.timer.patience()
	}
	return true
}

// hasEnded reports whether a command was relayed. One that the table does not list any more has ended.
func (r *relays) hasEnded(n *name) bool {
	return n.at.Compare(r.executed.Of(r.orders.Class(n.parties, n.id))) <= 0
}

// isQueued reports whether a command is delivered, and waits for its relay.
func (r *relays) isQueued(n *name) bool {
	for _, q := range r.queues {
		for i := range q.waiting {
			if q.waiting[i].relay.at.ID == n.id {
				return true
			}
		}
	}
	return false
}
