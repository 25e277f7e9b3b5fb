package sim

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// epoch is the Unix time, in nanoseconds, at which virtual time starts.
const epoch = int64(1_700_000_000) * int64(time.Second)

// shortestWake is the minimum delay of a step that a node requests. Without it, virtual time would stand
// still for a node that always requests its next step at once.
const shortestWake = time.Microsecond

// process has the node of one process while the process is up, and its disk and its ends of links.
type process struct {
	net   *Network
	id    multicast.ProcessID
	index int // in Network.ids
	links map[multicast.ProcessID]*link
	disk  disk

	up          bool
	away        bool // killed, or a spare that was not started: only Network.Start starts it
	incarnation uint64
	started     time.Duration
	node        turn.Node
	endpoint    *fabricsim.Endpoint // nil: the network has no one-sided memory
	input, last turn.Input          // the input of the next step, and that of the last one for reuse
	stepping    bool                // a step is scheduled
	pausedUntil time.Duration
	wakeAt      time.Duration // the time of the earliest requested step; 0: none
	skew        time.Duration
	calls       map[uint64]*call // requests to answer, by token

	active   bool // the process has sent or received a frame with data
	activeAt time.Duration
	spoke    map[multicast.ProcessID]time.Duration // when it first sent a frame to another process
}

func (n *Network) newProcess(index int) *process {
	id := n.ids[index]
	p := &process{net: n, id: id, index: index, links: map[multicast.ProcessID]*link{}, spoke: map[multicast.ProcessID]time.Duration{}}
	for _, other := range n.ids {
		l := &link{}
		if other != id {
			l.latency = n.between(n.cfg.LatencyMin, n.cfg.LatencyMax)
		}
		p.links[other] = l
	}
	p.jump()
	return p
}

// runs reports whether p is up and still in this incarnation. An event that was scheduled for an earlier
// incarnation must not happen to a later one.
func (p *process) runs(incarnation uint64) bool { return p.up && p.incarnation == incarnation }

// start boots the process from its disk.
func (p *process) start() {
	p.incarnation++
	p.net.trace.add(p.net.now, "start", p.id, p.incarnation, uint64(len(p.disk.records)))
	p.up, p.stepping, p.wakeAt = true, false, 0
	p.disk.opened()
	p.started, p.pausedUntil = p.net.now, p.net.now
	p.calls = map[uint64]*call{}
	for _, id := range p.net.ids {
		p.links[id].open, p.links[id].accepted = false, 0
	}
	node, err := p.net.boot(p.id, p.incarnation, p.disk.records)
	if err != nil {
		p.up = false
		p.net.fail(fmt.Errorf("process %d, start number %d: %w", p.id, p.incarnation, err))
		return
	}
	p.node = node
	p.joinMemory()
	p.net.reconnect(p)
}

// restart starts a process that is down, unless it was killed or is an unstarted spare.
func (p *process) restart() {
	if !p.up && !p.away {
		p.start()
	}
}

// stop stops the process. Only the state of its disk remains.
func (p *process) stop() {
	p.net.trace.add(p.net.now, "stop", p.id)
	p.up, p.node = false, nil
	p.input, p.last = turn.Input{}, turn.Input{}
	p.net.loseFlight(p)
	p.loseMemory()
	p.disk.lose(p.net)
}

// receive adds a frame to the input of the next step.
func (p *process) receive(f multicast.Frame) {
	p.input.Frames = append(p.input.Frames, f)
	p.wake()
}

// wake schedules a step unless there is one.
func (p *process) wake() {
	if !p.up || p.stepping {
		return
	}
	p.stepping = true
	p.stepAt(p.net.now + p.net.between(0, p.net.cfg.Gather))
}

func (p *process) stepAt(at time.Duration) {
	incarnation := p.incarnation
	p.net.Schedule(at, func() {
		switch {
		case !p.runs(incarnation):
		case p.pausedUntil > p.net.now:
			p.stepAt(p.pausedUntil)
		case !p.net.cfg.Pipelined && p.disk.busy():
			p.stepAt(p.disk.free)
		default:
			p.step()
		}
	})
}

// instant reads the clocks of the process.
func (p *process) instant() multicast.Instant {
	return multicast.Instant{
		Mono: p.net.now - p.started,
		Wall: epoch + int64(p.net.now+p.skew),
	}
}

// jump sets the wall clock to some other time.
func (p *process) jump() { p.skew = p.net.between(-p.net.cfg.Skew, p.net.cfg.Skew) }

// step takes one turn: the node gets all ready input, and the output goes to the disk.
func (p *process) step() {
	p.stepping, p.wakeAt = false, 0
	p.input, p.last = p.last, p.input
	in := &p.last
	in.Now = p.instant()
	p.completed(in)
	p.input.Reset()
	for _, f := range in.Frames {
		if len(f.Data) == 0 {
			l := p.links[f.Peer]
			l.accepted = l.era
		}
	}
	p.net.took(p, in.Frames)
	w := &write{}
	p.node.Step(in, &w.out)
	out := &w.out
	p.net.trace.add(p.net.now, "step", p.id, uint64(len(in.Frames)), uint64(len(in.Proposed)),
		uint64(len(out.Records)), uint64(len(out.Frames)), uint64(len(out.Deliveries)))
	w.early, w.eras = p.accepted(out.Early), p.accepted(out.Frames)
	if node, ok := p.node.(logger); ok {
		w.ends = node.LogEnds(out.Records)
	}
	p.answer(out.Replies)
	p.wakeBy(out.Wake)
	p.disk.write(p, w)
}

// accepted checks the frames of a step. For each frame it returns the era of its link (link.go) to which it
// belongs: the last one that the process has accepted.
func (p *process) accepted(frames []multicast.Frame) (eras []uint64) {
	for i, f := range frames {
		invariant.Check(p.links[f.Peer] != nil && len(f.Data) > 0 && len(f.Data) <= p.net.cfg.MaxFrame,
			"process %d sends %d bytes to process %d: a frame has 1 to %d", p.id, len(f.Data), f.Peer, p.net.cfg.MaxFrame)
		for _, other := range frames[:i] {
			invariant.Check(f.Peer != other.Peer, "process %d sends two frames to process %d in one step", p.id, f.Peer)
		}
		eras = append(eras, p.links[f.Peer].accepted)
	}
	return eras
}

// releaseEarly sends the output that does not wait for the records of its step.
func (p *process) releaseEarly(w *write) {
	for i, f := range w.out.Early {
		p.net.send(p, w.early[i], f, w)
	}
}

// release sends the output that has waited for the records of its step.
func (p *process) release(w *write) {
	p.answer(w.out.Persisted)
	p.reach(&w.out)
	for i, f := range w.out.Frames {
		p.net.send(p, w.eras[i], f, nil)
	}
	for i := range w.out.Deliveries {
		d := &w.out.Deliveries[i]
		p.net.trace.add(p.net.now, "deliver", p.id, uint64(d.ID.Sender), d.ID.Seq, uint64(d.Final))
	}
	replies, err := p.node.Apply(&w.out)
	if err != nil {
		p.net.fail(fmt.Errorf("process %d applies: %w", p.id, err))
		return
	}
	p.answer(replies)
	p.wakeBy(p.node.Wake())
}

// wakeBy schedules a step no later than a time of the process's Mono.
func (p *process) wakeBy(mono time.Duration) {
	if mono == 0 {
		return
	}
	at := max(p.started+mono, p.net.now+shortestWake)
	if p.wakeAt != 0 && p.wakeAt <= at {
		return
	}
	p.wakeAt = at
	incarnation := p.incarnation
	p.net.Schedule(at, func() {
		if p.runs(incarnation) && p.wakeAt == at {
			p.wake()
		}
	})
}

// act records that the process has sent or received a frame.
func (p *process) act() {
	if !p.active {
		p.active, p.activeAt = true, p.net.now
	}
}
