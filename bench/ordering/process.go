package ordering

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// epoch is the Unix time, in nanoseconds, at which virtual time starts.
const epoch = int64(1_700_000_000) * int64(time.Second)

// coverEvery is after how many deliveries a process may forget them: its state machine, in
// memory, holds them at once, and a snapshot is worth it now and then only.
const coverEvery = 1024

// shortestWake keeps a core that asks to step again at once from standing still in time.
const shortestWake = time.Microsecond

// process is one machine with one CPU: it steps, or is busy with what a step costs, or sleeps.
type process struct {
	net   *network
	id    multicast.ProcessID
	place place
	core  multicast.Core
	skew  time.Duration // of its wall clock

	next, in multicast.Input // gathering for the next step; of the last one
	out      multicast.Output
	busy     bool          // until the output of the last step leaves
	free     time.Duration // when it leaves
	wakeAt   time.Duration // 0: none
	sent     time.Duration // when the network interface is done with all that left

	// deliver is told of each delivery when it leaves.
	deliver   func(p *process, d *multicast.Delivery)
	delivered multicast.Position
	uncovered int // deliveries since the last Covered

	use use
}

// use counts what a process did, with all of a step that is not over.
type use struct {
	busy, measured time.Duration // all, and what the core's steps took of it
	frames         int           // sent to others
}

func (p *process) receive(f multicast.Frame) {
	p.next.Frames = append(p.next.Frames, f)
	p.wake()
}

// propose hands a message to the core.
func (p *process) propose(m multicast.Message) {
	p.next.Proposed = append(p.next.Proposed, m)
	p.wake()
}

// wake steps if p sleeps; if it is busy, it finds what is ready when it has finished.
func (p *process) wake() {
	if !p.busy {
		p.step(p.net.cost.Wake)
	}
}

// step takes in all that is ready, and is busy for what that costs and for the price of beginning.
func (p *process) step(price time.Duration) {
	n := p.net
	p.next, p.in = p.in, p.next
	p.next.Reset()
	p.busy, p.wakeAt = true, 0
	p.in.Now = multicast.Instant{Mono: n.now, Wall: epoch + int64(n.now+p.skew)}
	if p.uncovered >= coverEvery {
		p.in.Covered, p.uncovered = multicast.UpTo(p.delivered), 0
	}
	p.out.Reset()
	if n.meter != nil {
		n.meter.start()
	}
	p.core.Step(&p.in, &p.out)
	if n.meter != nil {
		took := n.meter.stop()
		p.use.measured += took
		price += took
	}
	price += time.Duration(p.foreign(p.in.Frames)+p.foreign(p.out.Frames)) * n.cost.Frame
	p.use.frames += p.foreign(p.out.Frames)
	p.use.busy += price
	p.free = n.now + price
	n.schedule(p.free, p.release)
}

// foreign counts the frames that cross a network.
func (p *process) foreign(frames []multicast.Frame) (count int) {
	for i := range frames {
		if frames[i].Peer != p.id && len(frames[i].Data) > 0 {
			count++
		}
	}
	return count
}

// release ends a step: what it said leaves, and what came meanwhile is next.
func (p *process) release() {
	n := p.net
	for _, f := range p.out.Frames {
		n.send(p, f)
	}
	for i := range p.out.Deliveries {
		d := &p.out.Deliveries[i]
		p.delivered = d.Position()
		p.uncovered++
		p.deliver(p, d)
	}
	p.busy = false
	switch at := p.out.Wake; {
	case len(p.next.Frames)+len(p.next.Proposed) > 0:
		p.step(0)
	case at > 0:
		at = max(at, n.now+shortestWake)
		p.wakeAt = at
		n.schedule(at, func() {
			if p.wakeAt == at {
				p.wake()
			}
		})
	}
}
