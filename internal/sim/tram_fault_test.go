package sim

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

func (r *tramRun) scheduleFault() {
	r.net.Schedule(r.net.Now()+r.between(0, 2*r.faultEvery), func() {
		if !r.healed {
			r.fault()
			r.scheduleFault()
		}
	})
}

func (r *tramRun) fault() {
	p := r.processes[r.ids[r.rng.IntN(len(r.ids))]]
	until := r.net.Now() + r.between(0, r.longest)
	draw := r.rng.IntN(r.cut + r.pause + r.kill + r.chase + r.restart + r.replace)
	if draw -= r.restart; draw < 0 {
		r.powerLoss(p, until)
		return
	}
	if draw -= r.replace; draw < 0 {
		r.replaceProcess(p)
		return
	}
	switch {
	case draw < r.cut:
		r.reach.cuts++
		r.cutOff(p, until)
	case draw < r.cut+r.pause:
		p.pausedUntil = max(p.pausedUntil, until)
		r.reach.paused++
	case draw < r.cut+r.pause+r.kill:
		r.crash(p)
	default:
		r.hunt(until)
	}
}

// cutOff cuts links of a process, all or some, in one direction or both.
func (r *tramRun) cutOff(p *tramProcess, until time.Duration) {
	both, all := r.rng.IntN(2) == 0, r.rng.IntN(2) == 0
	for _, id := range r.ids {
		if id == p.id || !all && r.rng.IntN(2) == 0 {
			continue
		}
		a, b := fabric.NodeID(p.id), fabric.NodeID(id)
		if !both && r.rng.IntN(2) == 0 {
			a, b = b, a
		}
		r.net.Cut(a, b)
		if both {
			r.net.Cut(b, a)
		}
		r.net.Schedule(until, func() {
			r.net.Mend(a, b)
			r.net.Mend(b, a)
		})
	}
}

// hunt pauses or stops a process that leads.
func (r *tramRun) hunt(until time.Duration) {
	for _, i := range r.rng.Perm(len(r.ids)) {
		p := r.processes[r.ids[i]]
		if !p.up || !p.core.Leads() || len(p.group.Members) == 1 {
			continue
		}
		if r.rng.IntN(3) == 0 {
			r.crash(p)
		} else {
			p.pausedUntil = max(p.pausedUntil, until)
			r.reach.paused++
		}
		return
	}
}

// crash stops a process for ever, if a majority of its group remains.
func (r *tramRun) crash(p *tramProcess) {
	if !p.up || r.voters(p)-1 < p.group.Quorum() {
		return
	}
	r.reach.killed++
	p.stop()
}

func (r *tramRun) heal() {
	r.healed = true
	r.net.Heal()
	for _, id := range r.ids {
		p := r.processes[id]
		p.pausedUntil = r.net.Now()
		if !p.up && p.returns {
			p.revive()
		}
	}
}
