package onesided

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// model is a cluster of TRAM with clients, in virtual time.
type model struct {
	cfg          *Config
	destinations int
	net          *fabricsim.Network
	rng          *rand.Rand
	groups       []multicast.Group
	latencies    []time.Duration
	processes    []*process
	err          error
}

// process is a machine with one CPU and a client.
type process struct {
	model    *model
	id       multicast.ProcessID
	group    multicast.GroupID
	core     *tram.Core
	endpoint *fabricsim.Endpoint
	busy     bool
	stopped  bool
	again    bool // something has happened since the last step began
	wakeAt   time.Duration
	in       tram.Input
	events   fabric.Events
	seq      uint64
	proposed map[uint64]time.Duration
	executor *executor // nil: deliveries are not executed
	trial    *trial    // nil: clients multicast one message after the other
}

// slot gives the size of a slot that a message fits into.
func (c *Config) slot() int { return max(128, (c.Payload+12*maxGroups+64+7)/8*8) }

// layout is the groups of a model and their tree.
type layout struct {
	groups, members int
	parents         map[multicast.GroupID]multicast.GroupID
}

// layoutOf gives the layout of a shape.
func layoutOf(shape string) layout {
	l := layout{groups: groupCount, members: members, parents: map[multicast.GroupID]multicast.GroupID{}}
	for i, up := range shapes[shape] {
		l.parents[multicast.GroupID(i+1)] = up
	}
	return l
}

func newModel(cfg *Config, l layout, destinations int) (*model, error) {
	m := &model{
		cfg: cfg, destinations: destinations, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6f6e65)),
		net: fabricsim.New(fabricsim.Config{
			Seed: cfg.Seed, LatencyMin: cfg.Cost.LatencyMin, LatencyMax: cfg.Cost.LatencyMax,
			Timeout: time.Second, Bandwidth: cfg.Cost.Bandwidth,
		}),
	}
	for g := range l.groups {
		group := multicast.Group{ID: multicast.GroupID(g)}
		for i := range l.members {
			group.Members = append(group.Members, multicast.ProcessID(l.members*g+i+1))
		}
		m.groups = append(m.groups, group)
	}
	for _, g := range m.groups {
		for _, id := range g.Members {
			if err := m.start(id, g.ID, l.parents); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

func (m *model) start(id multicast.ProcessID, group multicast.GroupID, parents map[multicast.GroupID]multicast.GroupID) error {
	core, err := tram.New(tram.Config{
		Self: id, Groups: m.groups, Parents: parents, Slots: 64, SlotSize: m.cfg.slot(), SuspectAfter: time.Minute,
		NoteEvery: 20 * time.Microsecond, Seed: m.cfg.Seed,
	})
	if err != nil {
		return err
	}
	p := &process{
		model: m, id: id, group: group, core: core, endpoint: m.net.Node(fabric.NodeID(id)), proposed: map[uint64]time.Duration{},
	}
	for _, r := range core.Regions() {
		memory, err := p.endpoint.Register(r.ID, r.Size)
		if err != nil {
			return err
		}
		core.Attach(r.ID, memory)
	}
	p.endpoint.OnChange(p.wake)
	m.processes = append(m.processes, p)
	m.net.Schedule(0, p.wake)
	return nil
}

// wake steps, now or when the step before has ended.
func (p *process) wake() {
	if p.busy || p.stopped {
		p.again = true
		return
	}
	p.busy, p.again = true, false
	m := p.model
	p.events.Reset()
	p.endpoint.Poll(&p.events)
	p.in.Now, p.in.Completions = m.net.Now(), p.events.Completions
	if p.executor != nil {
		p.in.Completions = p.executor.split(p.events.Completions)
	}
	out := &tram.Output{}
	p.core.Step(&p.in, out)
	p.in = tram.Input{}
	extra := time.Duration(0)
	if p.executor != nil {
		extra = p.executor.step(out)
	}
	for _, r := range out.Rights {
		if err := p.endpoint.Grant(r.Region, r.Peer, r.Rights); err != nil {
			m.err = err
		}
	}
	price := m.cfg.Cost.Step + time.Duration(len(out.Ops)+len(p.events.Completions))*m.cfg.Cost.Op
	m.net.Schedule(m.net.Now()+price+extra, func() { p.release(out) })
}

// release ends a step.
func (p *process) release(out *tram.Output) {
	m := p.model
	if err := p.endpoint.Post(out.Ops...); err != nil {
		m.err = err
	}
	p.busy = false
	if p.executor != nil {
		p.executor.release(out)
	}
	for i := range out.Deliveries {
		switch {
		case p.trial == nil:
			p.deliver(&out.Deliveries[i])
		case p.executor == nil:
			p.trial.delivered(p, &out.Deliveries[i])
		}
	}
	switch {
	case p.again:
		p.wake()
	case out.Wake > 0:
		at := max(out.Wake, m.net.Now()+time.Microsecond)
		p.wakeAt = at
		m.net.Schedule(at, func() {
			if p.wakeAt == at {
				p.wake()
			}
		})
	}
}

// deliver records the latency of a message of the process's own client, which multicasts the next one.
func (p *process) deliver(d *multicast.Delivery) {
	if d.ID.Sender != p.id {
		return
	}
	m := p.model
	m.latencies = append(m.latencies, m.net.Now()-p.proposed[d.ID.Seq])
	delete(p.proposed, d.ID.Seq)
	m.net.Schedule(m.net.Now()+time.Duration(m.rng.Int64N(int64(2*time.Microsecond))), p.propose)
}

// propose multicasts to the process's own group and to others at random.
func (p *process) propose() {
	m := p.model
	dest := []multicast.GroupID{p.group}
	for _, g := range m.rng.Perm(groupCount) {
		if id := multicast.GroupID(g); id != p.group && len(dest) < m.destinations {
			dest = append(dest, id)
		}
	}
	slices.Sort(dest)
	p.seq++
	p.proposed[p.seq] = m.net.Now()
	p.in.Proposed = append(p.in.Proposed, multicast.Message{
		ID: multicast.MessageID{Sender: p.id, Seq: p.seq}, Dest: dest, Payload: make([]byte, m.cfg.Payload),
	})
	p.wake()
}

// slice of virtual time between two looks at the context.
const slice = 20 * time.Microsecond

// run lets virtual time pass.
func (m *model) run(ctx context.Context, until time.Duration) error {
	for m.net.Now() < until && m.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.net.Run(min(until, m.net.Now()+slice))
	}
	return m.err
}

// measure runs one load.
func (c *Config) measure(ctx context.Context, shape string, destinations, outstanding int) (Point, error) {
	p := Point{Protocol: "tram-" + shape, Destinations: destinations, Outstanding: outstanding}
	m, err := newModel(c, layoutOf(shape), destinations)
	if err != nil {
		return p, err
	}
	for _, x := range m.processes {
		for range outstanding {
			m.net.Schedule(time.Duration(m.rng.Int64N(int64(5*time.Microsecond))), x.propose)
		}
	}
	if err := m.run(ctx, c.Warmup); err != nil {
		return p, err
	}
	m.latencies = nil
	before := m.net.Stats()
	if err := m.run(ctx, c.Warmup+c.Window); err != nil {
		return p, err
	}
	if p.Messages = len(m.latencies); p.Messages == 0 {
		return p, fmt.Errorf("%s, %d destinations: no message was delivered in %v of virtual time", shape, destinations, c.Window)
	}
	slices.Sort(m.latencies)
	p.Throughput = float64(p.Messages) / c.Window.Seconds()
	p.Median = microseconds(m.latencies[(p.Messages-1)/2])
	p.P95 = microseconds(m.latencies[(p.Messages-1)*95/100])
	p.Sent = float64(m.net.Stats().Writes-before.Writes) / float64(p.Messages)
	return p, nil
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
