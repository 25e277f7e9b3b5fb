package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A fresh query is linearizable: it sees every update that was answered anywhere before it was asked. A barrier in the
// partition's order comes after all that was executed there before; and a command of several partitions was
// answered only after all of them had prepared it. So what must be seen is executed up to the barrier,
// or prepared and then decided. Updates need nothing more to be linearizable: one that conflicts with a command of several
// partitions meets what that holds until it is decided. So atomic global order (T chapter 5), which gives the same to
// replicas that do not vote, is not asked for.

// raiseBarrier proposes one barrier for all fresh queries that have come since the last one, once that is passed.
func (r *Replica) raiseBarrier() {
	if len(r.fresh) > 0 && len(r.fenced) == 0 {
		r.barrier, r.fenced, r.fresh = r.multicast(envelope{Kind: envelopeBarrier}), r.fresh, nil
	}
}

// passBarrier lets the queries go that waited for a barrier, once what came before it is decided.
func (r *Replica) passBarrier(id multicast.MessageID) {
	if id != r.barrier {
		return
	}
	behind := ask.Seen{Count: r.counter(), Cross: r.relayed}
	for _, p := range r.fenced {
		p.until = ask.Vector{behind}.Merge(ask.Vector{p.until})[0]
		r.parked = append(r.parked, p)
	}
	r.fenced = nil
	if len(r.fresh) > 0 {
		r.pursueNow()
	}
}
