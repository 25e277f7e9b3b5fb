package sim

import (
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A client that gives up a call may report to its user that the operation has failed. If it withdraws the
// call, the replica must not order the update in a later step (turn.Input.Withdrawn): the operation would
// happen long after its user has gone on. An update ordered before may take effect or not: the judge accepts
// both, as for each call that has timed out (inDoubt).
//
// The test observes the steps in which a client waited for an update at a replica, and the step in which the
// replica proposed it. A proposal carries the time at which its step began.

// incarnation is a replica from one start to the next.
type incarnation struct {
	process multicast.ProcessID
	number  uint64
}

// waits is the calls for updates that one incarnation has taken.
type waits struct {
	step   int                    // number of the last step
	at     map[int64]steps        // by the wall clock that the steps have read
	update map[uint64]updateName  // by token, of calls that are not withdrawn
	open   map[updateName]int     // the number of these calls for an update
	spans  map[updateName][]steps // in which at least one was open
}

// steps are the steps from first to last, both included.
type steps struct{ first, last int }

func newWaits() *waits {
	return &waits{at: map[int64]steps{}, update: map[uint64]updateName{}, open: map[updateName]int{}, spans: map[updateName][]steps{}}
}

// take records the calls of a step.
func (w *waits) take(n *treeNode, in *turn.Input) {
	w.step++
	now, again := w.at[in.Now.Wall]
	if !again {
		now.first = w.step
	}
	now.last = w.step
	w.at[in.Now.Wall] = now
	for _, call := range in.Requests {
		q, err := ask.DecodeRequest(call.Data)
		if err != nil || q.Kind != ask.Update || isHostile(call.From) {
			continue
		}
		name := updateName{n.partition, q.Session, q.Seq}
		w.update[call.Token] = name
		if w.open[name]++; w.open[name] == 1 {
			w.spans[name] = append(w.spans[name], steps{w.step, math.MaxInt})
		}
	}
	for _, token := range in.Withdrawn {
		name, ok := w.update[token]
		if !ok {
			continue
		}
		delete(w.update, token)
		if w.open[name]--; w.open[name] == 0 {
			spans := w.spans[name]
			spans[len(spans)-1].last = w.step
		}
		if u := n.run.history.bySeq[name]; u != nil {
			u.withdrew = true
		}
		n.run.reach[withdrawnThere]++
	}
}

// wasWaitedFor checks, for a delivery, that a client waited for its update when it was proposed.
func (r *tree) wasWaitedFor(d *multicast.Delivery) {
	payload := varint.NewReader(d.Payload)
	_ = payload.Uint8()
	proposed, partition := payload.Int(), uint16(d.Dest[0])
	switch payload.Uint8() {
	case entryRequest:
	case entryCommand:
		partition = payload.Uint16()
		for range 3 { // the age
			payload.Uint64()
		}
	default:
		return
	}
	if payload.Uint64() != 0 && isHostile(ask.ReadClient(payload)) {
		return
	}
	q, err := ask.DecodeRequest(payload.Rest())
	if err != nil || q.Kind != ask.Update {
		return
	}
	by := incarnation{d.ID.Sender, d.ID.Seq >> 32}
	w := r.waits[by]
	at, ok := w.at[proposed]
	waited := func(s steps) bool { return s.first <= at.last && at.first <= s.last }
	if name := (updateName{partition, q.Session, q.Seq}); !ok || !slices.ContainsFunc(w.spans[name], waited) {
		r.fail("replica %d proposed update %+v in its step %d, when nobody waited for it: %+v", by.process, name, at.first, w.spans[name])
	}
}
