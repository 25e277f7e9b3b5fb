package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// tramProcess is a process with its TRAM core.
type tramProcess struct {
	run         *tramRun
	id          multicast.ProcessID
	node        fabric.NodeID
	life        uint32
	group       *multicast.Group
	core        *tram.Core
	endpoint    *fabricsim.Endpoint
	up          bool
	busy        bool // a step has not ended, or is scheduled
	again       bool // input has arrived since
	pausedUntil time.Duration
	wakeAt      time.Duration
	in          tram.Input
	events      fabric.Events
	seq         uint64
	upper       *heronProcess // nil: nobody executes the deliveries
	tramDisk
	tramSeal
}

// start starts a process, with what its disk holds.
func (p *tramProcess) start(amnesiac bool) error {
	r := p.run
	cfg := r.core
	cfg.Self, cfg.Groups, cfg.Parents, cfg.Seed = p.id, r.groups, r.parents, r.seed+uint64(p.id)
	cfg.Life, cfg.Amnesiac, cfg.Delivered, cfg.Seats = p.life, amnesiac, p.durable, slices.Clone(r.seats)
	core, err := tram.New(cfg)
	if err != nil {
		return err
	}
	for _, record := range p.records {
		if err := core.Replay(record); err != nil {
			return err
		}
	}
	p.core, p.up, p.endpoint = core, true, r.net.Node(p.node)
	for _, region := range core.Regions() {
		m, err := p.endpoint.Register(region.ID, region.Size)
		if err != nil {
			return err
		}
		core.Attach(region.ID, m)
	}
	if r.upper != nil {
		if p.upper, err = r.upper.start(p); err != nil {
			return err
		}
	}
	p.endpoint.OnChange(p.wake)
	r.processes[p.id], r.nodes[p.node] = p, p.id
	p.wake()
	return nil
}

// wake schedules a step, once the one before has ended.
func (p *tramProcess) wake() {
	if p.busy || !p.up {
		p.again = true
		return
	}
	p.busy = true
	p.run.net.Schedule(max(p.pausedUntil, p.run.net.Now()+p.run.between(0, p.run.linger)), p.begin)
}

// begin does a step: rights change at once, and operations leave later.
func (p *tramProcess) begin() {
	if p.retires() {
		return
	}
	if p.pausedUntil > p.run.net.Now() {
		p.run.net.Schedule(p.pausedUntil, p.begin)
		return
	}
	p.again = false
	p.events.Reset()
	p.endpoint.Poll(&p.events)
	p.in.Now, p.in.Completions = p.run.net.Now(), p.events.Completions
	ends := max(p.pausedUntil, p.run.net.Now()+p.run.between(0, p.run.linger))
	out := &tram.Output{}
	if p.upper != nil {
		p.in.Completions = p.upper.split(p.events.Completions)
	}
	p.core.Step(&p.in, out)
	p.in = tram.Input{}
	p.seal(out)
	if p.upper != nil {
		p.upper.step(out, ends)
	}
	p.log(out)
	if len(out.Records) > 0 {
		ends += p.run.between(0, p.run.syncMax)
	} else {
		p.permit(out)
	}
	p.run.net.Schedule(ends, func() { p.end(out) })
}

// permit changes rights.
func (p *tramProcess) permit(out *tram.Output) {
	for _, right := range out.Rights {
		change := p.endpoint.Grant
		if right.Revoke {
			change = p.endpoint.Revoke
		}
		if err := change(right.Region, right.Peer, right.Rights); err != nil {
			p.run.errs = append(p.run.errs, err)
		}
	}
}

func (p *tramProcess) end(out *tram.Output) {
	r := p.run
	if !p.up {
		return
	}
	if p.pausedUntil > r.net.Now() {
		r.net.Schedule(p.pausedUntil, func() { p.end(out) })
		return
	}
	if len(out.Records) > 0 {
		p.sync()
		p.permit(out)
	}
	for i := range out.Ops {
		pair := [2]multicast.ProcessID{p.id, r.nodes[out.Ops[i].Peer]}
		if _, ok := r.sends[pair]; !ok {
			r.sends[pair] = r.net.Now()
		}
	}
	if err := p.endpoint.Post(out.Ops...); err != nil {
		r.errs = append(r.errs, err)
	}
	if p.upper != nil {
		p.upper.end()
	}
	for _, d := range out.Deliveries {
		r.delivered[d.ID] = true
		if p.upper != nil {
			r.deliveries = append(r.deliveries, tramDelivery{d, p.group.ID})
		}
		p.deliver(d)
	}
	p.busy, p.behind = false, len(out.Behind) > 0
	p.keepUp(out)
	if !p.up {
		return
	}
	if p.upper != nil && p.upper.out.Wake > 0 && (out.Wake == 0 || p.upper.out.Wake < out.Wake) {
		out.Wake = p.upper.out.Wake
	}
	if p.again {
		p.wake()
		return
	}
	if out.Wake > 0 {
		at := max(out.Wake, r.net.Now()+time.Microsecond)
		p.wakeAt = at
		r.net.Schedule(at, func() {
			if p.wakeAt == at {
				p.wake()
			}
		})
	}
}

// pending is how much a process still has to do, with its upper layer.
func (p *tramProcess) pending() int {
	n := p.core.Pending()
	if p.upper != nil {
		n += p.upper.core.Pending()
	}
	return n
}
