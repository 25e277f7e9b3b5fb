package sim

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// scheduleFault schedules a fault after a random time, and then the next one.
func (n *Network) scheduleFault() {
	wait := time.Duration(n.rng.ExpFloat64() * float64(n.cfg.Faults.Every))
	n.Schedule(n.now+wait, func() {
		if !n.healed {
			n.fault()
			n.scheduleFault()
		}
	})
}

// fault injects one random fault.
func (n *Network) fault() {
	f := &n.cfg.Faults
	p := n.anyProcess()
	until := n.now + n.between(0, f.Longest)
	kind := n.rng.IntN(f.weights())
	for _, k := range []struct {
		weight int
		name   string
		do     func()
	}{
		{f.Pause, "pause", func() { p.pausedUntil = max(p.pausedUntil, until) }},
		{f.Stall, "stall", func() { n.stall(until) }},
		{f.Cut, "cut", func() { n.cut(until); n.cutMemory(p, until) }},
		{f.Lag, "lag", func() { n.lag(p, until) }},
		{f.Reset, "reset", func() { n.reset(p) }},
		{f.SlowDisk, "slow-disk", func() { p.disk.slowUntil = until }},
		{f.Jump, "jump", p.jump},
		{f.Crash, "crash", func() { n.crash(until, p) }},
		{f.CrashAll, "crash-all", n.crashAll},
		{f.Chase, "chase", func() { n.chase(p) }},
		{f.Kill, "kill", func() { n.kill(p) }},
		{f.Ahead, "ahead", func() { n.ahead(until, p) }},
		{f.Learn, "learn", func() { n.learn(until, p) }},
		{f.Move, "move", func() { n.move(p) }},
		{f.Evict, "evict", func() { n.change(p, f.Evicted) }},
		{f.Grow, "grow", func() { n.grow(p) }},
		{f.Shrink, "shrink", func() { n.change(p, f.Shrunk) }},
		{f.Power, "power", func() { n.losePower(p) }},
		{f.Outage, "outage", func() { n.outage(until, p) }},
	} {
		if kind < k.weight {
			n.trace.add(n.now, k.name, p.id, uint64(until))
			k.do()
			return
		}
		kind -= k.weight
	}
}

func (n *Network) anyProcess() *process {
	return n.processes[n.ids[n.rng.IntN(len(n.ids))]]
}

// move asks a process to lead.
func (n *Network) move(p *process) {
	if may := n.cfg.Faults.MayMove; p.up && (may == nil || may(p.id)) {
		p.input.Lead = true
		p.wake()
		n.mark(Moved)
	}
}

// reset restarts a link between two live processes.
func (n *Network) reset(p *process) {
	if q := n.anyProcess(); q != p && p.up && q.up {
		n.connect(p, q)
	}
}

// change calls do, a function of the load, for a member that was not killed.
func (n *Network) change(p *process, do func(multicast.ProcessID)) {
	if do != nil && !p.away && n.groupOf(p.id) != nil {
		do(p.id)
	}
}

// grow makes the load add a spare to the group of a process.
func (n *Network) grow(p *process) {
	if g := n.groupOf(p.id); g != nil && n.cfg.Faults.Grown != nil {
		n.cfg.Faults.Grown(g.ID)
	}
}
