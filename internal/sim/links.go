package sim

import "time"

// someProcesses draws a set of processes that a fault separates from the others: one process, a region, or
// any set.
func (n *Network) someProcesses() (inside []bool, region bool) {
	inside = make([]bool, len(n.ids))
	for i := range inside {
		inside[i] = n.rng.IntN(2) == 0
	}
	if n.rng.IntN(2) == 0 {
		clear(inside)
		inside[n.rng.IntN(len(inside))] = true
	}
	if len(n.cfg.Regions) == 0 || n.rng.IntN(2) == 0 {
		return inside, false
	}
	clear(inside)
	for _, id := range n.cfg.Regions[n.rng.IntN(len(n.cfg.Regions))] {
		inside[n.processes[id].index] = true
	}
	return inside, true
}

// across calls do for all links between the processes inside and the others, in both directions or one.
func (n *Network) across(inside []bool, oneWay bool, do func(from, to *process)) {
	for i, from := range n.ids {
		for j, to := range n.ids {
			if inside[i] && !inside[j] || inside[j] && !inside[i] && !oneWay {
				do(n.processes[from], n.processes[to])
			}
		}
	}
}

// stall delays the frames on some links.
func (n *Network) stall(until time.Duration) {
	inside, _ := n.someProcesses()
	oneWay := n.rng.IntN(2) == 0
	n.across(inside, oneWay, func(from, to *process) {
		l := from.links[to.id]
		l.stalled = max(l.stalled, until)
	})
}

// cut cuts some links until a time: the frames on them, and all frames that are sent before their mending,
// are lost.
func (n *Network) cut(until time.Duration) {
	inside, region := n.someProcesses()
	oneWay := n.rng.IntN(2) == 0
	if region {
		n.mark(CutRegion)
	}
	if oneWay {
		n.mark(CutOneWay)
	}
	n.across(inside, oneWay, func(from, to *process) { n.cutLink(from, to, until) })
}

// cutLink cuts one direction between two processes.
func (n *Network) cutLink(from, to *process, until time.Duration) {
	n.trace.add(n.now, "cut-link", from.id, uint64(to.id))
	l := from.links[to.id]
	if len(l.flight) > 0 {
		n.mark(CutFrames)
	}
	l.flight = nil
	l.cut = max(l.cut, until, 1)
	n.Schedule(l.cut, func() {
		if max(l.cut, to.links[from.id].cut) <= n.now { // else the end of the longer cut mends both directions
			n.mend(from, to)
		}
	})
}

// mend ends the cuts between two processes. Frames were lost, so their connection restarts, even if only one
// direction was cut.
func (n *Network) mend(p, q *process) {
	there, back := p.links[q.id], q.links[p.id]
	if there.cut == 0 && back.cut == 0 {
		return
	}
	there.cut, back.cut = 0, 0
	if p.up && q.up {
		n.mark(CutSurvived)
		n.connect(p, q)
	}
}

// lag makes a link slower, or all links of a process.
func (n *Network) lag(p *process, until time.Duration) {
	by := n.between(0, n.cfg.Faults.LagMax)
	q := n.anyProcess()
	all := n.rng.IntN(2) == 0
	for _, id := range n.ids {
		if id == p.id {
			continue
		}
		if all || id == q.id {
			p.links[id].slow(by, until)
		}
		if all {
			n.processes[id].links[p.id].slow(by, until)
		}
	}
}

func (l *link) slow(by, until time.Duration) { l.lag, l.lagUntil = by, until }

// delay returns the minimum delay of a frame that leaves now.
func (l *link) delay(now time.Duration) time.Duration {
	if now < l.lagUntil {
		return l.latency + l.lag
	}
	return l.latency
}

// healLinks ends all faults of links. Late frames arrive as if they had just been sent.
func (n *Network) healLinks() {
	for _, from := range n.ids {
		for _, to := range n.ids {
			p, q := n.processes[from], n.processes[to]
			l := p.links[to]
			l.stalled, l.lagUntil = n.now, n.now
			n.mend(p, q)
			if p.up && q.up && !p.connected(q) {
				n.connect(p, q) // their handshake may be held up
			}
			l.last = min(l.last, n.now+l.latency)
			for i := range l.flight {
				l.flight[i].at = min(l.flight[i].at, l.last)
				n.arriveAt(p, q, l.flight[i].at)
			}
		}
	}
}
