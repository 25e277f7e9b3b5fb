package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// tramSeal is the state of a barrier at one process.
type tramSeal struct {
	generation int
	sealed     bool
	returned   []multicast.Message
}

// generationStep is between the places of two orders of a group.
const generationStep = multicast.Timestamp(1) << 32

// barrier multicasts a barrier.
func (r *tramRun) barrier() {
	for _, i := range r.rng.Perm(len(r.ids)) {
		p := r.processes[r.ids[i]]
		if !p.up || r.generation > 0 {
			continue
		}
		p.seq++
		r.propose(p, p.core.NewBarrier(p.seq, []byte("next")))
		p.wake()
		return
	}
}

// seal records the progress of a barrier in the output of a step.
func (p *tramProcess) seal(out *tram.Output) {
	if p.sealed && len(out.Deliveries) > 0 {
		p.run.errs = append(p.run.errs, fmt.Errorf("process %d delivers %v behind a barrier", p.id, out.Deliveries[0].ID))
	}
	p.sealed = out.Sealed
	p.returned = append(p.returned, out.Returned...)
}

// retires stops a process of an earlier generation.
func (p *tramProcess) retires() bool {
	if p.generation != p.run.generation {
		p.up = false
	}
	return !p.up
}

// changeTree begins the next order when all processes have come to the end of this one. If the process that
// was to multicast the barrier has stopped, another one does.
func (r *tramRun) changeTree() {
	waits, sealed := false, false
	for _, id := range r.ids {
		p := r.processes[id]
		waits = waits || p.up && (!p.sealed || p.core.Pending() > 0 || p.busy || len(p.in.Proposed) > 0)
		sealed = sealed || p.sealed
	}
	if waits {
		if !sealed && r.rng.IntN(20) == 0 {
			r.barrier()
		}
		return
	}
	r.generation, r.parents, r.seats = 1, r.nextParents, nil
	var running []*tramProcess
	for _, id := range r.ids {
		if p := r.processes[id]; p.up {
			p.up = false
			r.net.Crash(p.node)
			running = append(running, p)
		}
	}
	for _, p := range running {
		p.renew()
	}
}

// renew begins the next order at a process, with the messages that the barrier has excluded from the last
// one.
func (p *tramProcess) renew() {
	next := &tramProcess{run: p.run, id: p.id, node: fabric.NodeID(p.id), group: p.group, seq: p.seq}
	next.generation = p.run.generation
	slices.SortFunc(p.returned, func(a, b multicast.Message) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	p.run.reach.returned += len(p.returned)
	for _, m := range p.returned {
		if m.Order == tram.Barrier {
			p.run.history.Multicasts[p.run.multicasts[m.ID]].Lost = true // another barrier came first
			continue
		}
		next.in.Proposed = append(next.in.Proposed, m)
	}
	if err := next.start(false); err != nil {
		p.run.errs = append(p.run.errs, err)
	}
}
