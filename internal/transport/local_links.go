package transport

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// pairKey names two processes, the lower one first. A process makes a pair with itself, too.
type pairKey struct{ low, high multicast.ProcessID }

func keyOf(a, b multicast.ProcessID) pairKey { return pairKey{min(a, b), max(a, b)} }

// localPair is the link between two processes.
//
// INVARIANT: if started, the links of both are open, and the two are not cut from each other.
type localPair struct {
	pairKey
	started bool
	session uint64 // number of starts: a frame of an earlier session is dropped on arrival
	ends    [2]localEnd
}

// localEnd is the sending side of one of the two processes.
type localEnd struct {
	unaccepted int       // number of starts that its owner has not accepted
	bytes      int       // bytes that were sent and not taken
	full       bool      // the window has overflowed: frames are refused until the link starts again
	last       time.Time // time at which the last frame arrives
}

// end returns the sending side of one process of the pair.
func (p *localPair) end(from multicast.ProcessID) *localEnd {
	if from == p.low {
		return &p.ends[0]
	}
	return &p.ends[1]
}

// localArrival is a frame in an inbox or on its way there.
type localArrival struct {
	multicast.Frame
	to      multicast.ProcessID
	pair    *localPair
	session uint64
}

func (a *localArrival) size() int { return len(a.Data) + frameOverhead }

// pair returns the pair of two processes. l.mu is held.
func (l *Local) pair(a, b multicast.ProcessID) *localPair {
	key := keyOf(a, b)
	p := l.pairs[key]
	if p == nil {
		p = &localPair{pairKey: key}
		l.pairs[key] = p
	}
	return p
}

// start begins the link of p from nothing, if both processes have links. l.mu is held.
func (l *Local) start(p *localPair) {
	low, high := l.links[p.low], l.links[p.high]
	if low == nil || high == nil || l.isCut(p.low, p.high) {
		return
	}
	p.started = true
	p.session++
	l.startEnd(p, low, p.high)
	if low != high {
		l.startEnd(p, high, p.low)
	}
}

func (l *Local) startEnd(p *localPair, owner *localLinks, peer multicast.ProcessID) {
	e := p.end(owner.self)
	*e = localEnd{unaccepted: e.unaccepted + 1}
	owner.push(localArrival{Frame: multicast.Frame{Peer: peer}})
}

// stopAll ends the links of a process. l.mu is held.
func (l *Local) stopAll(self multicast.ProcessID) {
	for _, p := range l.pairs {
		if p.low == self || p.high == self {
			p.started = false
			p.end(self).unaccepted = 0
		}
	}
}

// startKnown starts the links between a process that opened its links and all processes that have tried to
// send to it, or that it has sent to in an earlier life. l.mu is held.
func (l *Local) startKnown(self multicast.ProcessID) {
	for _, p := range l.pairs {
		if p.low == self || p.high == self {
			l.start(p)
		}
	}
}

// land puts a frame into the queue of its receiver. l.mu is held.
func (l *Local) land(a localArrival) {
	if a.pair.started && a.pair.session == a.session {
		l.links[a.to].push(a)
	}
}

// localLinks are the links of one process. Everything is guarded by local.mu.
type localLinks struct {
	local  *Local
	self   multicast.ProcessID
	inbox  inbox[localArrival]
	notify func(mayWork bool) // nil: not set yet
}

// push queues an arrival. It runs in the sender's goroutine, which has its own work.
func (k *localLinks) push(a localArrival) {
	k.inbox.push(a)
	if k.notify != nil && !k.inbox.closed {
		k.notify(false)
	}
}

func (*localLinks) Flush() {}

func (k *localLinks) Notify(f func(mayWork bool)) {
	k.local.mu.Lock()
	defer k.local.mu.Unlock()
	k.notify = f
}

func (k *localLinks) Send(to multicast.ProcessID, frame []byte) error {
	if err := checkFrame(frame); err != nil {
		return err
	}
	l := k.local
	delay := l.between(k.self, to)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.inbox.closed {
		return ErrClosed
	}
	p := l.pair(k.self, to)
	e := p.end(k.self)
	if len(frame) > MaxFrame {
		e.full = true
		l.drained(p, e)
		return tooLong(to, frame)
	}
	if !p.started {
		l.start(p)
		return nil
	}
	a := localArrival{Frame: multicast.Frame{Peer: k.self, Data: frame}, to: to, pair: p, session: p.session}
	switch {
	case e.full || e.bytes+a.size() > Window:
		e.full = true
		return fmt.Errorf("link to process %d: %w", to, ErrBacklog)
	case e.unaccepted > 0:
		return nil
	}
	e.bytes += a.size()
	if delay <= 0 && e.last.IsZero() {
		l.land(a)
		return nil
	}
	if due := time.Now().Add(delay); due.After(e.last) { // otherwise it arrives with the last frame, to keep the order
		e.last = due
	}
	l.flight.add(e.last, a, &l.mu)
	return nil
}

func (k *localLinks) Accept(peer multicast.ProcessID) {
	k.local.mu.Lock()
	defer k.local.mu.Unlock()
	if e := k.local.pair(k.self, peer).end(k.self); !k.inbox.closed && e.unaccepted > 0 {
		e.unaccepted--
	}
}

func (k *localLinks) Take(into []multicast.Frame, most int) []multicast.Frame {
	k.local.mu.Lock()
	defer k.local.mu.Unlock()
	for range most {
		a, ok := k.inbox.take()
		if !ok {
			break
		}
		into = append(into, a.Frame)
		k.taken(&a)
	}
	return into
}

// taken opens the window of the sender; a link that overflowed starts again once it has drained.
func (k *localLinks) taken(a *localArrival) {
	if a.pair == nil || !a.pair.started || a.session != a.pair.session {
		return
	}
	e := a.pair.end(a.Peer)
	e.bytes -= a.size()
	k.local.drained(a.pair, e)
}

// drained restarts a link that overflowed, once all earlier frames are taken. l.mu is held.
func (l *Local) drained(p *localPair, e *localEnd) {
	if e.full && e.bytes == 0 {
		l.start(p)
	}
}

func (k *localLinks) Close() error {
	l := k.local
	l.mu.Lock()
	defer l.mu.Unlock()
	if !k.inbox.closed {
		k.inbox.close()
		delete(l.links, k.self)
		l.stopAll(k.self)
	}
	return nil
}
