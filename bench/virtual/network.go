package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// epoch is the Unix time, in nanoseconds, at which virtual time starts.
const epoch = int64(1_700_000_000) * int64(time.Second)

const (
	// InsideDelay is the one-way delay between datacenters of a region, and between a client and a replica in
	// its region.
	InsideDelay = 250 * time.Microsecond
	// Jitter is the largest fraction by which a frame or a call takes longer.
	Jitter = 0.02
	// shortestWake lets time pass for a node that requests a step at once.
	shortestWake = time.Microsecond
)

// Network is nodes, the links between them, and the calls of clients, in virtual time. It has one owner.
type Network struct {
	Random   *rand.Rand
	Now      time.Duration
	queue    heap.Timeline
	machines map[multicast.ProcessID]*machine
	ids      []multicast.ProcessID // of machines, ascending
	cut      topology.Region       // the separated region; "": none
	Traffic  Traffic
	Err      error         // the first failure of a node
	token    uint64        // of the last call
	prices   *Prices       // nil: computing takes no time
	batch    int           // requests that a step takes at most; 0: all
	inside   time.Duration // of a frame or call within a region
	memory   *Memory       // nil: none
	fabric   *fabricsim.Network
}

// Traffic is the traffic between processes.
type Traffic struct {
	Frames     int `json:"frames"`
	Bytes      int `json:"bytes"`
	WideFrames int `json:"wide_frames"` // of Frames, between regions
	WideBytes  int `json:"wide_bytes"`  // of Bytes, between regions
}

func newNetwork(seed uint64) *Network {
	return &Network{
		Random: rand.New(rand.NewPCG(seed, 0x6361727269657273)), machines: map[multicast.ProcessID]*machine{}, inside: InsideDelay,
	}
}

// Schedule schedules f for a time that is not past.
func (n *Network) Schedule(at time.Duration, f func()) {
	n.queue.Add(at, f)
}

// Run processes the events up to a time, or until done reports true.
func (n *Network) Run(until time.Duration, done func() bool) {
	for n.Err == nil && !done() {
		if at, ok := n.memoryNext(); ok && at <= until {
			n.Now = at
			n.fabric.Step()
			continue
		}
		if at, ok := n.queue.Next(); !ok || at > until {
			n.Now = until
			return
		}
		e := n.queue.Pop()
		n.Now = e.At
		e.Do()
	}
}

// Pass advances the time.
func (n *Network) Pass(d time.Duration) { n.Run(n.Now+d, func() bool { return false }) }

// Delay draws the time from one region to another.
func (n *Network) Delay(a, b topology.Region) time.Duration {
	d := n.inside
	if a != b {
		d = topology.Delay(a, b)
	}
	return d + time.Duration(Jitter*n.Random.Float64()*float64(d))
}

// linkDelay draws the time of a frame from one region to another.
func (n *Network) linkDelay(a, b topology.Region) time.Duration {
	if n.memory == nil || !n.memory.Links || a != b {
		return n.Delay(a, b)
	}
	return n.memory.LatencyMin + time.Duration(n.Random.Float64()*float64(n.memory.LatencyMax-n.memory.LatencyMin))
}

// isCut reports whether nothing passes between two regions.
func (n *Network) isCut(a, b topology.Region) bool {
	return n.cut != "" && a != b && (a == n.cut || b == n.cut)
}

// CutOff cuts a region off: frames on their way are lost.
func (n *Network) CutOff(region topology.Region) {
	n.cut = region
	n.acrossCut(func(from, to *machine) { from.link(to.id).era++ })
}

// Mend ends the cut: both ends of each link across it get its new start.
func (n *Network) Mend() {
	n.acrossCut(func(from, to *machine) {
		*from.link(to.id) = link{era: from.link(to.id).era + 1}
		to.receive(multicast.Frame{Peer: from.id})
	})
	n.cut = ""
}

func (n *Network) acrossCut(do func(from, to *machine)) {
	for _, a := range n.ids {
		for _, b := range n.ids {
			if from, to := n.machines[a], n.machines[b]; n.isCut(from.region, to.region) {
				do(from, to)
			}
		}
	}
}

// call sends a request from a region to a process. done is called once: with the reply, or with nil at the
// end of the patience.
func (n *Network) call(from topology.Region, to multicast.ProcessID, data []byte, patience time.Duration, done func(reply []byte)) {
	n.token++
	token, over, m := n.token, false, n.machines[to]
	finish := func(reply []byte) {
		if !over {
			over = true
			done(reply)
		}
	}
	n.Schedule(n.Now+patience, func() { finish(nil) })
	if n.isCut(from, m.region) {
		return
	}
	n.Schedule(n.Now+n.Delay(from, m.region), func() {
		if n.isCut(from, m.region) {
			return
		}
		m.calls[token] = func(reply []byte) {
			if n.isCut(from, m.region) {
				return
			}
			n.Schedule(n.Now+n.Delay(m.region, from), func() {
				if !n.isCut(from, m.region) {
					finish(reply)
				}
			})
		}
		m.request(turn.Call{Token: token, Data: data})
	})
}

// machine is one process.
type machine struct {
	net     *Network
	id      multicast.ProcessID
	region  topology.Region
	node    turn.Node
	host    *Host                  // nil: computing takes no time
	observe func(out *turn.Output) // is called with each step's output before it is applied; may be nil

	links    map[multicast.ProcessID]*link // to others
	input    turn.Input                    // of the next step
	stepping bool                          // a step is scheduled
	wakeAt   time.Duration                 // 0: none
	endpoint *fabricsim.Endpoint           // nil: no one-sided memory
	touched  bool                          // the memory has changed since the last step began
	calls    map[uint64]func(reply []byte) // unanswered calls, by token
}

// link is one direction between two processes.
type link struct {
	era  uint64        // frames of an earlier one are lost
	last time.Duration // arrival of the last frame: frames keep their order
}

// add adds a process. Its links start at once.
func (n *Network) add(id multicast.ProcessID, region topology.Region, node turn.Node, host *Host) *machine {
	m := &machine{
		net: n, id: id, region: region, node: node, host: host,
		links: map[multicast.ProcessID]*link{}, calls: map[uint64]func([]byte){},
	}
	for _, other := range n.ids {
		m.receive(multicast.Frame{Peer: other})
		n.machines[other].receive(multicast.Frame{Peer: id})
	}
	m.receive(multicast.Frame{Peer: id})
	n.machines[id] = m
	n.ids = append(n.ids, id)
	return m
}

func (m *machine) link(to multicast.ProcessID) *link {
	if m.links[to] == nil {
		m.links[to] = &link{}
	}
	return m.links[to]
}

func (m *machine) receive(f multicast.Frame) {
	m.input.Frames = append(m.input.Frames, f)
	if m.host == nil {
		m.wake()
	} else {
		_, _, step := m.net.linkPrices()
		m.wakeFor(step)
	}
}

// request takes a call. A host does the work of the call before the step; one step may take several calls.
func (m *machine) request(c turn.Call) {
	take := func() {
		m.input.Requests = append(m.input.Requests, c)
		m.wake()
	}
	if m.host == nil {
		take()
	} else {
		m.host.Spend(m.net.prices.Request, take)
	}
}

// wake schedules a step at this time unless there is one, so that simultaneous inputs are taken together.
func (m *machine) wake() {
	if m.host == nil {
		m.wakeFor(0)
	} else {
		m.wakeFor(m.net.prices.Wake)
	}
}

// wakeFor is wake; a host pays a price for the step.
func (m *machine) wakeFor(price time.Duration) {
	if !m.stepping {
		m.stepping = true
		if m.host == nil {
			m.net.Schedule(m.net.Now, m.step)
		} else {
			m.compete(price)
		}
	}
}

// step takes one step. Its output leaves at once.
func (m *machine) step() {
	out, replies, _ := m.turn()
	m.leave(out, replies)
	if len(m.input.Requests) > 0 {
		m.wake()
	}
}

// compete takes a step on a processor of the host. The output leaves at the end of the step, which is
// followed by another one if input has arrived meanwhile.
func (m *machine) compete(wake time.Duration) {
	var out *turn.Output
	var replies []turn.Call
	m.host.do(work{
		begin: func() time.Duration {
			send, receive, _ := m.net.linkPrices()
			price := wake + time.Duration(m.foreign(m.input.Frames))*receive
			var completed int
			out, replies, completed = m.turn()
			m.stepping = true
			if ops := completed + len(out.Ops); ops > 0 {
				price += time.Duration(ops) * m.net.memory.Op
			}
			return price + time.Duration(m.foreign(out.Frames))*send + time.Duration(len(out.Deliveries))*m.net.prices.Apply
		},
		end: func() {
			m.stepping = false
			m.leave(out, replies)
			if (m.touched || len(m.input.Frames)+len(m.input.Requests) > 0) && !m.stepping {
				m.stepping = true
				m.compete(m.next())
			}
		},
	})
}

// next returns the price of a step that follows another one.
func (m *machine) next() time.Duration {
	if m.endpoint == nil {
		return 0
	}
	return m.net.memory.Step
}

// foreign counts the frames that cross a network.
func (m *machine) foreign(frames []multicast.Frame) (count int) {
	for i := range frames {
		if frames[i].Peer != m.id && len(frames[i].Data) > 0 {
			count++
		}
	}
	return count
}

// turn takes the input, and returns the output of the step, the replies of its deliveries, and the number of
// operations on memory that have ended.
func (m *machine) turn() (*turn.Output, []turn.Call, int) {
	n := m.net
	in, out := m.input, &turn.Output{}
	m.input, m.stepping, m.wakeAt = turn.Input{}, false, 0
	if n.batch > 0 && len(in.Requests) > n.batch {
		m.input.Requests = append(m.input.Requests, in.Requests[n.batch:]...)
		in.Requests = in.Requests[:n.batch]
	}
	in.Now = multicast.Instant{Mono: n.Now, Wall: epoch + int64(n.Now)}
	m.complete(&in)
	m.node.Step(&in, out)
	replies, err := m.node.Apply(out)
	if err != nil {
		n.Err = fmt.Errorf("process %d at %v: %w", m.id, n.Now, err)
	}
	return out, replies, len(in.Completions)
}

// leave sends the output of a step.
func (m *machine) leave(out *turn.Output, replies []turn.Call) {
	m.reach(out)
	for _, f := range out.Frames {
		m.send(f)
	}
	m.answer(out.Replies)
	m.answer(out.Persisted)
	if m.observe != nil {
		m.observe(out)
	}
	m.answer(replies)
	m.wakeBy(out.Wake)
	m.wakeBy(m.node.Wake())
}

// send carries a frame to another process, or to this one.
func (m *machine) send(f multicast.Frame) {
	n, to := m.net, m.net.machines[f.Peer]
	arrived := multicast.Frame{Peer: m.id, Data: f.Data}
	if to == m {
		n.Schedule(n.Now, func() { m.receive(arrived) })
		return
	}
	n.Traffic.Frames++
	n.Traffic.Bytes += len(f.Data)
	if m.region != to.region {
		n.Traffic.WideFrames++
		n.Traffic.WideBytes += len(f.Data)
	}
	if n.isCut(m.region, to.region) {
		return
	}
	l := m.link(f.Peer)
	l.last = max(l.last, n.Now+n.linkDelay(m.region, to.region))
	era := l.era
	n.Schedule(l.last, func() {
		if l.era == era {
			to.receive(arrived)
		}
	})
}

func (m *machine) answer(replies []turn.Call) {
	for _, r := range replies {
		if done := m.calls[r.Token]; done != nil {
			delete(m.calls, r.Token)
			done(r.Data)
		}
	}
}

// wakeBy schedules a step no later than a time; 0: none.
func (m *machine) wakeBy(at time.Duration) {
	if at == 0 || m.wakeAt != 0 && m.wakeAt <= at {
		return
	}
	at = max(at, m.net.Now+shortestWake)
	m.wakeAt = at
	m.net.Schedule(at, func() {
		if m.wakeAt == at {
			m.wake()
		}
	})
}
