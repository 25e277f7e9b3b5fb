package wan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// longestWait is the longest wait of a packet for bandwidth. Packets with a longer wait are dropped, as
	// by a router with a buffer of that size.
	longestWait = 200 * time.Millisecond
	// mostHeld is the maximum number of bytes in flight on one path: 10 Gbit/s for 200 ms.
	mostHeld = 256 << 20
)

// Link describes the connection from one host to another, in one direction.
type Link struct {
	Delay  time.Duration // one way
	Jitter time.Duration // maximum deviation of a packet's delay in both directions; the order stays
	Loss   float64       // the probability of the loss of a packet, 0 to 1
	Rate   int64         // bits per second; 0: no limit
	Down   bool          // nothing passes
}

func (l *Link) validate() error {
	var err error
	if l.Delay < 0 || l.Jitter < 0 {
		err = fmt.Errorf("delay %v, jitter %v: must not be negative", l.Delay, l.Jitter)
	}
	if !(l.Loss >= 0 && l.Loss <= 1) {
		err = errors.Join(err, fmt.Errorf("loss %v: must be from 0 to 1", l.Loss))
	}
	if l.Rate < 0 {
		err = errors.Join(err, fmt.Errorf("rate %d bit/s: must not be negative", l.Rate))
	}
	return err
}

// path is one direction of a pair of hosts: its shape, and its packets in flight. Times are since the
// router's start.
type path struct {
	Traffic
	from, to int  // hosts
	normal   Link // as New made it

	queue []packet      // in flight, first in, first out, from head on; their due times never fall
	head  int           // of queue
	held  int           // bytes in flight
	last  time.Duration // when the latest packet is due
	free  time.Duration // when the bandwidth is free again
	index int           // in the schedule; -1: nothing is in flight
}

type packet struct {
	frame []byte // of the router's pool
	due   time.Duration
}

// admit returns the due time of a packet of size bytes; false: the packet is lost or dropped.
func (p *path) admit(now time.Duration, size int, random *rand.Rand) (due time.Duration, ok bool) {
	if p.Down || p.held+size > mostHeld {
		p.Dropped++
		return 0, false
	}
	if p.Loss > 0 && random.Float64() < p.Loss {
		p.Lost++
		return 0, false
	}
	due = now + p.Delay
	if p.Jitter > 0 {
		due += time.Duration((2*random.Float64() - 1) * float64(p.Jitter))
	}
	if p.Rate > 0 {
		p.free = max(p.free, now)
		if p.free-now > longestWait {
			p.Dropped++
			return 0, false
		}
		p.free += time.Duration(float64(size) * 8 / float64(p.Rate) * float64(time.Second))
		due += p.free - now
	}
	p.last = max(due, p.last, now)
	return p.last, true
}

func (p *path) push(frame []byte, due time.Duration) {
	p.queue = append(p.queue, packet{frame, due})
	p.held += len(frame)
}

func (p *path) inFlight() bool { return p.head < len(p.queue) }

// due returns the due time of the first packet in flight.
func (p *path) due() time.Duration { return p.queue[p.head].due }

func (p *path) pop() []byte {
	frame := p.queue[p.head].frame
	p.queue[p.head].frame = nil
	p.held -= len(frame)
	p.head++
	if p.head == len(p.queue) || p.head > 1024 && p.head > len(p.queue)/2 {
		p.queue = p.queue[:copy(p.queue, p.queue[p.head:])]
		p.head = 0
	}
	return frame
}

// reshape changes the path. Packets in flight arrive no later than a packet sent now could, so that a faster
// path takes effect at once.
func (p *path) reshape(link Link, now time.Duration) {
	p.Link = link
	p.free = 0
	limit := now + link.Delay + link.Jitter
	p.last = min(p.last, limit)
	for i := p.head; i < len(p.queue); i++ {
		p.queue[i].due = min(p.queue[i].due, limit)
	}
}

// Before implements heap.Item: both paths have packets in flight, and the next packet of p is due first.
func (p *path) Before(other *path) bool { return p.due() < other.due() }

// Moved implements heap.Item.
func (p *path) Moved(to int) { p.index = to }
