package ordering

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// epoch is the Unix time, in nanoseconds, at which virtual time starts.
const epoch = int64(1_700_000_000) * int64(time.Second)

// coverEvery is the number of deliveries after which a process may forget them: its state machine, in memory,
// holds them at once, and a snapshot now and then is enough.
const coverEvery = 1024

// shortestWake is the least delay of a step that a core asks for. It keeps virtual time moving for a core
// that asks for each next step at once.
const shortestWake = time.Microsecond

// process is one machine with one CPU: it steps, or is busy for the cost of a step, or sleeps.
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
	sent     time.Duration // when the network interface has sent all frames that left

	// deliver is called for each delivery when it leaves.
	deliver   func(p *process, d *multicast.Delivery)
	delivered multicast.Position
	uncovered int // deliveries since the last Covered

	use use
}

// use counts the work of a process. A step that has begun counts in full.
type use struct {
	busy, measured time.Duration // all work, and the measured time of the core's steps
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

// wake steps if p sleeps. A busy p takes the ready input when its step ends.
func (p *process) wake() {
	if !p.busy {
		p.step(p.net.cost.Wake)
	}
}

// step takes all ready input, and is busy for the cost of the step and the price of its beginning.
func (p *process) step(price time.Duration) {
	n := p.net
	p.next, p.in = p.in, p.next
	p.next.Reset()
	if n.unpacked {
		p.takeOne()
	}
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

// takeOne leaves all input but the first frame, or the first proposal, to the next steps. So the messages of
// a step are few, and frames hold few messages.
func (p *process) takeOne() {
	if len(p.in.Frames) > 0 {
		p.next.Frames = append(p.next.Frames, p.in.Frames[1:]...)
		p.next.Proposed = append(p.next.Proposed, p.in.Proposed...)
		p.in.Frames, p.in.Proposed = p.in.Frames[:1], p.in.Proposed[:0]
	} else if len(p.in.Proposed) > 1 {
		p.next.Proposed = append(p.next.Proposed, p.in.Proposed[1:]...)
		p.in.Proposed = p.in.Proposed[:1]
	}
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

// release ends a step: its output leaves, and input that has arrived meanwhile goes into the next step.
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
