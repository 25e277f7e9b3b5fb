package ordering

import (
	"math/rand/v2"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// network is processes and the links between them in virtual time. It has one owner.
type network struct {
	scenario *Scenario
	cost     Cost
	meter    *meter // nil: steps cost nothing but the fixed prices
	rng      *rand.Rand
	unpacked bool // a step takes one frame or one proposal

	now       time.Duration
	queue     heap.Timeline
	processes []*process // process i+1 is at i
	links     [][]link   // from, to
}

// link is one direction between two processes.
type link struct {
	base  time.Duration // without deviation
	now   time.Duration // the latency, until redraw
	until time.Duration
	last  time.Duration // when the last frame arrives: frames keep their order
}

// redrawn is the number of latencies after which a link's deviation is drawn anew.
const redrawn = 10

// build is the parameters of a network.
type build struct {
	scenario *Scenario
	protocol *Protocol
	cost     Cost
	skew     time.Duration // the maximal distance of a wall clock from true time
	seed     uint64
	groups   []multicast.Group
	places   []place
	unpacked bool
}

// newNetwork makes the processes; their first steps, with the starts of all links, are its first events.
func newNetwork(b build) (*network, error) {
	n := &network{scenario: b.scenario, cost: b.cost, unpacked: b.unpacked, rng: rand.New(rand.NewPCG(b.seed, 0x6f72646572696e67))}
	if b.cost.Measured {
		m, err := newMeter()
		if err != nil {
			return nil, err
		}
		n.meter = m
	}
	for i, at := range b.places {
		core, err := b.protocol.New(&setting{self: multicast.ProcessID(i + 1), groups: b.groups, places: b.places, scenario: b.scenario})
		if err != nil {
			return nil, err
		}
		skew := time.Duration((2*n.rng.Float64() - 1) * float64(b.skew))
		n.processes = append(n.processes, &process{net: n, id: multicast.ProcessID(i + 1), place: at, core: core, skew: skew})
	}
	for _, p := range n.processes {
		var out []link
		for _, q := range n.processes {
			p.next.Frames = append(p.next.Frames, multicast.Frame{Peer: q.id})
			out = append(out, link{base: b.scenario.roundTrip(p.place, q.place) / 2})
		}
		n.links = append(n.links, out)
		n.schedule(0, p.wake)
	}
	return n, nil
}

func (n *network) process(id multicast.ProcessID) *process { return n.processes[id-1] }

// schedule schedules a call of f at a time that is not past.
func (n *network) schedule(at time.Duration, f func()) {
	n.queue.Add(at, f)
}

// slice is the number of events between two calls of between.
const slice = 256

// run executes all events up to a time. Now and then it calls between; an error of between ends the run.
func (n *network) run(until time.Duration, between func() error) error {
	for i := 1; ; i++ {
		if at, ok := n.queue.Next(); !ok || at > until {
			break
		}
		e := n.queue.Pop()
		n.now = e.At
		e.Do()
		if i%slice == 0 {
			if err := between(); err != nil {
				return err
			}
		}
	}
	n.now = until
	if n.meter != nil {
		return n.meter.err
	}
	return nil
}

// send carries a frame from p.
func (n *network) send(p *process, f multicast.Frame) {
	q := n.process(f.Peer)
	arrived := multicast.Frame{Peer: p.id, Data: f.Data}
	if p == q {
		p.next.Frames = append(p.next.Frames, arrived) // p takes it after all frames are sent
		return
	}
	p.sent = max(p.sent, n.now) + n.cost.transmission(len(f.Data))
	l := &n.links[p.id-1][q.id-1]
	l.last = max(l.last, p.sent+l.latency(n))
	n.schedule(l.last, func() { q.receive(arrived) })
}

// latency returns the latency of a frame that leaves now.
func (l *link) latency(n *network) time.Duration {
	if n.now >= l.until {
		deviated := 1 + n.scenario.deviation*n.rng.NormFloat64()
		l.now = time.Duration(max(0, deviated) * float64(l.base))
		l.until = n.now + redrawn*l.base
	}
	return l.now
}
