package batching

import (
	"math"
	"time"

	model "github.com/globalfs/globalfs/pkg/batching"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// Policy decides which of the waiting requests the leader proposes in a turn.
type Policy struct {
	Window   int  `json:"window"`   // batches under way at most; 0: any number
	Requests int  `json:"requests"` // of a turn at most; 0: all that wait
	Full     bool `json:"full"`     // a batch waits until it is full, at most for the time limit
}

// load is a group of replicas of the product's core, with clients of the leader in a closed loop.
type load struct {
	System   model.System
	Workload model.Workload
	Policy   Policy
	Clients  int
	Rounds   int // requests of each client that are measured
}

// warm is the requests of each client before the measurement.
const warm = 2

// group is a running load.
type group struct {
	load
	timeline
	members []*member

	payload []byte
	waiting []time.Duration // requests at the leader, by the times of their clients
	batches []int           // sizes of those under way, less what is delivered, the oldest first
	seq     uint64
	expires time.Duration // of the batch that waits until it is full
	answers int
}

// member is a replica with its processor and its outgoing links.
type member struct {
	*group
	id        multicast.ProcessID
	core      multicast.Core
	links     []resource // to each member; in a LAN all are the first one
	arrives   []time.Duration
	in        multicast.Input
	busy      bool
	wakeAt    time.Duration
	delivered multicast.Position
	uncovered int
}

// covered is the number of deliveries after which a member may forget them.
const covered = 1024

// newGroup starts the members and the clients.
func newGroup(l load) (*group, error) {
	g := &group{load: l, payload: make([]byte, l.Workload.Request)}
	all := multicast.Group{}
	for i := range l.System.Replicas {
		all.Members = append(all.Members, multicast.ProcessID(i+1))
	}
	for _, id := range all.Members {
		core, err := primcast.New(primcast.Config{
			Self: id, Groups: []multicast.Group{all}, Seed: uint64(id), SuspectAfter: time.Hour, FetchAfter: time.Hour, AuditEvery: math.MaxInt,
		})
		if err != nil {
			return nil, err
		}
		m := &member{group: g, id: id, core: core, links: make([]resource, len(all.Members)), arrives: make([]time.Duration, len(all.Members))}
		for _, peer := range all.Members {
			m.in.Frames = append(m.in.Frames, multicast.Frame{Peer: peer})
		}
		g.members = append(g.members, m)
		g.at(0, m.wake)
	}
	for range l.Clients {
		g.at(0, g.request)
	}
	return g, nil
}

// throughput runs a load. It gives the answers a second. The measurement has the same number of requests
// of each client: answers come in clumps, and a measurement of fixed length would count a clump too many
// or too few.
func (l load) throughput() (float64, error) {
	g, err := newGroup(l)
	if err != nil {
		return 0, err
	}
	for g.answers < warm*l.Clients {
		g.next()
	}
	began, before := g.now, g.answers
	for g.answers < (warm+l.Rounds)*l.Clients {
		g.next()
	}
	return float64(g.answers-before) / (g.now - began).Seconds(), nil
}

// request is a client's next request, at the leader at once.
func (g *group) request() {
	g.waiting = append(g.waiting, g.now)
	if g.ready() > 0 {
		g.members[0].wake()
	}
}

func (m *member) wake() {
	if !m.busy {
		m.turn()
	}
}

// turn takes all ready input. The processor is busy for its price, and the output leaves at its end.
func (m *member) turn() {
	in := m.in
	m.in = multicast.Input{}
	if m.id == 1 {
		in.Proposed = m.take()
	}
	in.Now = multicast.Instant{Mono: m.now, Wall: int64(m.now)}
	if m.uncovered >= covered {
		in.Covered, m.uncovered = multicast.UpTo(m.delivered), 0
	}
	m.busy, m.wakeAt = true, 0
	out := &multicast.Output{}
	m.core.Step(&in, out)
	own := 0
	if m.id == 1 {
		own = len(out.Deliveries)
	}
	w := m.Workload
	price := time.Duration(len(in.Proposed)+own)*m.System.Client.Of(w.Request+w.RequestHeader+w.Answer)/2 + time.Duration(own)*w.Execute
	price += m.frames(in.Frames) + m.frames(out.Frames)
	m.at(m.now+price, func() { m.leave(out) })
}

// frames returns the price of frames of others, or for others.
func (m *member) frames(all []multicast.Frame) (price time.Duration) {
	for _, f := range all {
		if f.Peer != m.id && len(f.Data) > 0 {
			price += m.System.Replica.Fixed/2 + model.Cost{PerByte: m.System.Replica.PerByte}.Of(len(f.Data))
		}
	}
	return price
}

// leave sends the output of a turn, and begins the next one if input has arrived meanwhile.
func (m *member) leave(out *multicast.Output) {
	for _, f := range out.Frames {
		m.send(f)
	}
	for i := range out.Deliveries {
		m.deliver(&out.Deliveries[i])
	}
	m.busy = false
	switch at := out.Wake; {
	case len(m.in.Frames) > 0 || m.id == 1 && m.ready() > 0:
		m.turn()
	case at > 0:
		at = max(at, m.now+time.Microsecond)
		m.wakeAt = at
		m.at(at, func() {
			if m.wakeAt == at {
				m.wake()
			}
		})
	}
}

func (m *member) send(f multicast.Frame) {
	to := m.members[f.Peer-1]
	arrived := multicast.Frame{Peer: m.id, Data: f.Data}
	if to == m {
		m.in.Frames = append(m.in.Frames, arrived)
		return
	}
	i := 0
	if m.System.WAN {
		i = int(f.Peer - 1)
	}
	at := m.links[i].use(m.now, transfer(&m.System, len(f.Data))) + m.System.Delay
	m.at(at, func() {
		to.in.Frames = append(to.in.Frames, arrived)
		to.wake()
	})
}

func (m *member) deliver(d *multicast.Delivery) {
	m.delivered = d.Position()
	m.uncovered++
	if m.id != 1 {
		return
	}
	if m.batches[0]--; m.batches[0] == 0 {
		m.batches = m.batches[1:]
	}
	answered := m.now
	if !m.System.WAN {
		answered = m.links[0].use(m.now, transfer(&m.System, m.Workload.Answer))
	}
	m.at(answered, func() {
		m.answers++
		m.request()
	})
}

// ready returns the number of requests that the policy allows to propose now.
func (g *group) ready() int {
	p := g.Policy
	n := len(g.waiting)
	if p.Window > 0 && len(g.batches) >= p.Window {
		return 0
	}
	if p.Requests == 0 || n == 0 {
		return n
	}
	if n < p.Requests && p.Full && g.now < g.waiting[0]+timeout {
		if g.expires < g.waiting[0]+timeout {
			g.expires = g.waiting[0] + timeout
			g.at(g.expires, g.members[0].wake)
		}
		return 0
	}
	return min(n, p.Requests)
}

// take takes the requests of a turn.
func (g *group) take() (all []multicast.Message) {
	n := g.ready()
	for range n {
		g.seq++
		all = append(all, multicast.Message{
			ID: multicast.MessageID{Sender: 1, Seq: g.seq}, Dest: []multicast.GroupID{0}, Payload: g.payload,
		})
	}
	if g.waiting = g.waiting[n:]; n > 0 {
		g.batches = append(g.batches, n)
	}
	return all
}
