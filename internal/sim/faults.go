package sim

import "time"

// scheduleFault lets something go wrong after a random time, and then again.
func (n *Network) scheduleFault() {
	wait := time.Duration(n.rng.ExpFloat64() * float64(n.cfg.Faults.Every))
	n.Schedule(n.now+wait, func() {
		if !n.healed {
			n.fault()
			n.scheduleFault()
		}
	})
}

// fault lets one thing go wrong.
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
		{f.Reset, "reset", func() { n.reset(p) }},
		{f.SlowDisk, "slow-disk", func() { p.disk.slowUntil = until }},
		{f.Jump, "jump", p.jump},
		{f.Crash, "crash", func() { n.crash(until, p) }},
		{f.CrashAll, "crash-all", func() { n.crashAll() }},
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

// stall holds up all links between a random set of processes and the others, in both directions or one.
func (n *Network) stall(until time.Duration) {
	inside := make([]bool, len(n.ids))
	for i := range inside {
		inside[i] = n.rng.IntN(2) == 0
	}
	if n.rng.IntN(2) == 0 { // often it is one process that is cut off
		clear(inside)
		inside[n.rng.IntN(len(inside))] = true
	}
	oneWay := n.rng.IntN(2) == 0
	for i, from := range n.ids {
		for j, to := range n.ids {
			if inside[i] && !inside[j] || inside[j] && !inside[i] && !oneWay {
				l := n.processes[from].links[to]
				l.stalled = max(l.stalled, until)
			}
		}
	}
}

// reset restarts a link between two processes that live on.
func (n *Network) reset(p *process) {
	if q := n.anyProcess(); q != p && p.up && q.up {
		n.connect(p, q)
	}
}

// crash stops a process for a while.
func (n *Network) crash(until time.Duration, p *process) {
	if !p.up {
		return
	}
	if may := n.cfg.Faults.MayCrash; may != nil && !may(p.id) {
		return
	}
	p.stop()
	n.Schedule(until, func() {
		if !p.up {
			p.start()
		}
	})
}

// crashAll stops all processes at once, for different times.
func (n *Network) crashAll() {
	for _, id := range n.ids {
		n.crash(n.now+n.between(0, n.cfg.Faults.Longest), n.processes[id])
	}
}

// RestartAll stops all processes now and starts them again at once.
func (n *Network) RestartAll() {
	for _, id := range n.ids {
		if p := n.processes[id]; p.up {
			p.stop()
		}
	}
	for _, id := range n.ids {
		n.processes[id].start()
	}
}
