package sim

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// link is one direction between two processes, kept at the sender.
//
// An era is the lifetime of one connection. A frame without data announces the era, and a process accepts the
// era by a step with that frame. A sent frame belongs to the last era that its sender has accepted. At the
// end of an era, its frames on the way are lost.
type link struct {
	latency  time.Duration
	last     time.Duration // when the last sent frame arrives: frames keep their order
	stalled  time.Duration // no frame arrives before this time
	cut      time.Duration // frames are lost until then, and longer if the other direction is cut; 0: not cut
	lag      time.Duration // additional delay of frames that leave before lagUntil
	lagUntil time.Duration
	era      uint64   // the number of the current era, the same in both directions
	accepted uint64   // the last era that the sender has accepted
	open     bool     // an era was announced to the sender since its start
	flight   []flying // the frames on the way, in order
	bytes    int      // bytes of this connection that were sent and not consumed by a step
	full     bool     // bytes has exceeded the window: no more frames until the connection restarts
}

// flying is a frame on the way.
type flying struct {
	at    time.Duration // when it arrives, unless the link stalls
	data  []byte
	early *write // the write for which the frame did not wait; nil: it waited for all records
}

// connect restarts the links between two processes, and announces this to both. A process is also connected
// to itself. If a link is cut, connect does nothing; mend will connect the processes.
func (n *Network) connect(p, q *process) {
	if p.links[q.id].cut > 0 || q.links[p.id].cut > 0 {
		return
	}
	n.trace.add(n.now, "connect", p.id, uint64(q.id))
	era := p.links[q.id].era + 1
	p.opened(q.id, era)
	if q != p {
		q.opened(p.id, era)
	}
}

// connected reports whether both of two processes that are up know of their connection.
func (p *process) connected(q *process) bool { return p.links[q.id].open && q.links[p.id].open }

// opened ends the old era of a link and announces the new one.
func (p *process) opened(peer multicast.ProcessID, era uint64) {
	l := p.links[peer]
	l.era, l.open, l.last, l.flight, l.bytes, l.full = era, true, 0, nil, 0, false
	p.receive(multicast.Frame{Peer: peer})
}

// reconnect connects a process that has started: to itself at once, and to all processes that are up after a
// handshake. A process that is down now will call reconnect at its own start.
func (n *Network) reconnect(p *process) {
	n.connect(p, p)
	for _, id := range n.ids {
		q := n.processes[id]
		if q == p || !q.up {
			continue
		}
		l := p.links[id]
		mine, theirs := p.incarnation, q.incarnation
		if l.cut > 0 || q.links[p.id].cut > 0 {
			n.mark(CutRestart)
		}
		wait := n.between(l.delay(n.now), 2*l.delay(n.now))
		n.Schedule(max(n.now+wait, l.stalled), func() {
			if p.runs(mine) && q.runs(theirs) && !p.connected(q) {
				n.connect(p, q)
			}
		})
	}
}

// send sends a frame that p has produced in an era. early is the write with the records of the step, if the
// frame does not wait for them.
func (n *Network) send(p *process, era uint64, f multicast.Frame, early *write) {
	q := n.processes[f.Peer]
	p.act()
	if _, ok := p.spoke[q.id]; !ok {
		p.spoke[q.id] = n.now
	}
	l := p.links[f.Peer]
	if era == 0 || era != l.era || l.cut > 0 || l.full {
		return // the link has not started, has restarted since, or is down
	}
	if l.bytes += len(f.Data); l.bytes > n.cfg.Window && q != p {
		n.overflow(p, q)
		return
	}
	at := n.now
	if q != p {
		at = max(n.now+l.delay(n.now)+n.between(0, n.cfg.Jitter), l.last, l.stalled)
	}
	if n.now < l.lagUntil {
		n.mark(Late)
	}
	l.last = at
	l.flight = append(l.flight, flying{at: at, data: f.Data, early: early})
	n.trace.add(n.now, "send", p.id, uint64(q.id), uint64(len(f.Data)), digest(f.Data))
	n.arriveAt(p, q, at)
}

// arriveAt schedules the arrival of the next frame at a time, if the connection still lives then.
func (n *Network) arriveAt(p, q *process, at time.Duration) {
	era := p.links[q.id].era
	n.Schedule(at, func() { n.arrive(p, q, era) })
}

// arrive passes the oldest frame on the way from p to q to its receiver.
func (n *Network) arrive(p, q *process, era uint64) {
	l := p.links[q.id]
	if l.era != era || len(l.flight) == 0 || l.flight[0].at > n.now {
		return // the frame was lost, or has already arrived because the network was healed
	}
	if l.stalled > n.now {
		n.arriveAt(p, q, l.stalled)
		return
	}
	data, early := l.flight[0].data, l.flight[0].early
	l.flight = l.flight[1:]
	if q.up && q.links[p.id].open {
		if early != nil {
			early.leaked = true
		}
		q.act()
		q.receive(multicast.Frame{Peer: p.id, Data: data})
	}
	n.drained(p, q)
	n.forget(p, early)
}

// overflow handles a send beyond the window of the link from p to q. The new frame is lost, and also the
// frames on the way from a random one on.
func (n *Network) overflow(p, q *process) {
	n.mark(Overflowed)
	n.trace.add(n.now, "overflow", p.id, uint64(q.id))
	l := p.links[q.id]
	l.full = true
	n.loseSome(l)
	n.drained(p, q)
}

// took opens the windows of the senders of the frames that a step of q consumes.
func (n *Network) took(q *process, frames []multicast.Frame) {
	for _, f := range frames {
		p := n.processes[f.Peer]
		p.links[q.id].taken(f.Data)
	}
	for _, f := range frames {
		n.drained(n.processes[f.Peer], q)
	}
}

func (l *link) taken(data []byte) { l.bytes = max(0, l.bytes-len(data)) }

// drained restarts a link that overflowed, once no frame is on the way and all arrived frames are consumed.
func (n *Network) drained(p, q *process) {
	l := p.links[q.id]
	if !l.full || len(l.flight) > 0 || slices.ContainsFunc(q.input.Frames, func(f multicast.Frame) bool { return f.Peer == p.id && len(f.Data) > 0 }) {
		return
	}
	era := l.era
	n.Schedule(n.now+n.between(l.delay(n.now), 2*l.delay(n.now)), func() {
		if p.up && q.up && l.full && l.era == era {
			n.connect(p, q)
		}
	})
}

// loseFlight drops frames of a stopping process that are on the way to others, on each link from a random
// frame on.
func (n *Network) loseFlight(p *process) {
	for _, id := range n.ids {
		n.loseSome(p.links[id])
	}
}

// loseSome drops the frames on the way from a random one on.
func (n *Network) loseSome(l *link) {
	l.flight = slices.Clip(l.flight[:n.rng.IntN(len(l.flight)+1)])
}
