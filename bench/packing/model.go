package packing

import (
	"math"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
)

// Config of a run. All processes are alike.
type Config struct {
	Processes                          int
	SendCost, ReceiveCost, MessageCost time.Duration
	Header                             int // bytes of a packet beside its messages
	Packed                             int // bytes of a message in a packet
	MTU                                int // bytes of the messages of a packet
	Buffer                             int // packets that a receiver holds
	Interval                           time.Duration
	Rounds                             int
	Bursts                             []int
	Protocols                          []string
	Progress                           func(what string)
}

// Default fits to the paper's system: six Sparc stations.
func Default() Config {
	return Config{
		Processes: 6, SendCost: 350 * time.Microsecond, ReceiveCost: 350 * time.Microsecond, MessageCost: 8 * time.Microsecond,
		Header: 160, Packed: 8, MTU: 1300, Buffer: 200, Interval: time.Millisecond, Rounds: 10,
		Bursts: []int{1, 2, 5, 10, 20, 60, 100, 200, 500, 1000, 2000}, Protocols: names(),
	}
}

// message is an application's message.
type message struct{ sender, number int }

// packet is the unit that the bus carries. The fields that a protocol does not need are empty.
type packet struct {
	from     int
	to       int // a process, or everyone
	messages []message
	order    []message
	token    bool
	holder   int // of the token, after this packet
	request  bool
	ack      int // the round that the sender has received
	bytes    int
}

const everyone = -1

// protocol is the part of a protocol in one process.
type protocol interface {
	submit(burst []message)
	receive(p *packet)
	timeout()
}

// event is something that happens at a time; those of the same time happen as they were scheduled.
type event struct {
	at   time.Duration
	seq  int
	what func()
}

// Before implements heap.Item.
func (e event) Before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// Moved implements heap.Item.
func (event) Moved(int) {}

// station is a process with its CPU and its network interface.
type station struct {
	net       *network
	id        int
	protocol  protocol
	busyUntil time.Duration
	waiting   []*packet // for the bus
	held      int       // packets that have arrived and were not taken
	delivered []message
}

type network struct {
	cfg      *Config
	now      time.Duration
	seq      int
	events   heap.Heap[event]
	stations []*station
	busBusy  bool
	next     int // the station that gets the bus first if several wait
	packets  int
	lost     bool
	deliver  func(s *station)
	acked    func(s *station, round int)
}

func (n *network) schedule(at time.Duration, what func()) {
	n.seq++
	n.events.Push(event{max(at, n.now), n.seq, what})
}

// compute occupies the CPU of a station, and then does something.
func (s *station) compute(cost time.Duration, then func()) {
	s.busyUntil = max(s.busyUntil, s.net.now) + cost
	s.net.schedule(s.busyUntil, then)
}

// send sends a packet, as several ones if it is too long. The parts share the fields of the protocol with the
// last one, which comes last.
func (s *station) send(p *packet) {
	perPacket := max(1, s.net.cfg.MTU/s.net.cfg.Packed)
	for len(p.messages) > perPacket {
		s.post(&packet{from: s.id, to: p.to, holder: -1, messages: p.messages[:perPacket]})
		p.messages = p.messages[perPacket:]
	}
	p.from = s.id
	s.post(p)
}

func (s *station) post(p *packet) {
	p.bytes = s.net.cfg.Header + s.net.cfg.Packed*(len(p.messages)+len(p.order))
	s.compute(s.net.cfg.SendCost, func() {
		s.waiting = append(s.waiting, p)
		s.net.bus()
	})
}

// slot is the time of a collision on an Ethernet.
const slot = 51200 * time.Nanosecond

// contention returns the time that k waiting stations lose until one of them has the bus.
func contention(k int) time.Duration {
	if k < 2 {
		return 0
	}
	a := math.Pow(1-1/float64(k), float64(k-1))
	return time.Duration((1/a - 1) * float64(slot))
}

// bus carries the next packet.
func (n *network) bus() {
	if n.busBusy {
		return
	}
	var from *station
	waiting := 0
	for i := range n.stations {
		if s := n.stations[(n.next+i)%len(n.stations)]; len(s.waiting) > 0 {
			waiting++
			if from == nil {
				from = s
			}
		}
	}
	if from == nil {
		return
	}
	n.busBusy, n.next = true, from.id+1
	n.packets++
	p := from.waiting[0]
	from.waiting = from.waiting[1:]
	took := contention(waiting) + time.Duration(p.bytes)*time.Second/(10_000_000/8)
	n.schedule(n.now+took, func() {
		n.busBusy = false
		for _, s := range n.stations {
			if s != from && (p.to == everyone || p.to == s.id) {
				s.arrive(p)
			}
		}
		n.bus()
	})
}

// arrive puts a packet before the CPU of a station.
func (s *station) arrive(p *packet) {
	if s.held == s.net.cfg.Buffer {
		s.net.lost = true
		return
	}
	s.held++
	s.compute(s.net.cfg.ReceiveCost, func() {
		s.held--
		if p.ack > 0 {
			s.net.acked(s, p.ack)
			return
		}
		s.protocol.receive(p)
	})
}

// handOver delivers messages to the application, in order.
func (s *station) handOver(messages []message) {
	if len(messages) == 0 {
		return
	}
	s.delivered = append(s.delivered, messages...)
	s.compute(time.Duration(len(messages))*s.net.cfg.MessageCost, func() { s.net.deliver(s) })
}
