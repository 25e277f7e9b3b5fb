package transport

import (
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// grpcLinks are the links of one process that a Server hosts.
type grpcLinks struct {
	server      *Server
	self        multicast.ProcessID
	incarnation uint64

	// mu is locked before Server.mu and sender.mu.
	mu      sync.Mutex
	inbox   inbox[multicast.Frame]
	ends    map[multicast.ProcessID]*linkEnd
	notify  func(mayWork bool) // nil: not set yet
	leaving []*sender          // senders with packets that are sent by the next Flush
}

// linkEnd is one end of a link, with its owner and the sender to the peer.
type linkEnd struct {
	link   // guarded by owner.mu, as the rest
	owner  *grpcLinks
	sender *sender // changes when the peer moves
	queued bool    // it is in the ready list of its sender
}

func newGRPCLinks(s *Server, self multicast.ProcessID, incarnation uint64) *grpcLinks {
	return &grpcLinks{server: s, self: self, incarnation: incarnation, ends: map[multicast.ProcessID]*linkEnd{}}
}

// end returns the link to a peer; nil if the address of the peer is unknown. k.mu is held.
func (k *grpcLinks) end(peer multicast.ProcessID) *linkEnd {
	if e := k.ends[peer]; e != nil {
		return e
	}
	address, err := k.server.pool.resolve(peer)
	if err != nil {
		return nil
	}
	e := &linkEnd{link: newLink(peer, k.incarnation), owner: k}
	k.ends[peer] = e
	k.server.join(address, e)
	return e
}

func (k *grpcLinks) Send(to multicast.ProcessID, frame []byte) error {
	if err := checkFrame(frame); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inbox.closed {
		return ErrClosed
	}
	e := k.end(to)
	if e == nil {
		return nil
	}
	err := e.send(frame)
	k.schedule(e)
	return err
}

// schedule schedules the packet of e, if it has one, for the next Flush. k.mu is held.
func (k *grpcLinks) schedule(e *linkEnd) {
	if e.sender.enlist(e) && !slices.Contains(k.leaving, e.sender) {
		k.leaving = append(k.leaving, e.sender)
	}
}

func (k *grpcLinks) Flush() {
	var senders [4]*sender
	k.mu.Lock()
	leaving := append(senders[:0], k.leaving...)
	clear(k.leaving)
	k.leaving = k.leaving[:0]
	k.mu.Unlock()
	for _, s := range leaving {
		s.flush()
	}
}

func (k *grpcLinks) Accept(peer multicast.ProcessID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.ends[peer]; e != nil {
		e.accept()
	}
}

func (k *grpcLinks) Notify(f func(mayWork bool)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notify = f
}

func (k *grpcLinks) Take(into []multicast.Frame, most int) []multicast.Frame {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range most {
		f, ok := k.inbox.take()
		if !ok {
			break
		}
		into = append(into, f)
		e := k.ends[f.Peer]
		e.took(f.Data)
		k.schedule(e)
	}
	return into
}

// deliver takes a packet of a peer. It runs in a goroutine that may take turns of the process.
func (k *grpcLinks) deliver(p *wire.Packet) error {
	notify, err := k.arrive(p)
	if notify != nil {
		notify(true)
	}
	return err
}

// arrive queues the frames of a packet. If there are any, or a start, it returns the function to notify.
func (k *grpcLinks) arrive(p *wire.Packet) (notify func(mayWork bool), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inbox.closed {
		return nil, nil
	}
	e := k.end(multicast.ProcessID(p.From))
	if e == nil {
		return nil, nil // no answer is possible
	}
	start, frames, err := e.receive(p)
	if start {
		k.inbox.push(multicast.Frame{Peer: e.peer})
	}
	for _, f := range frames {
		k.inbox.push(multicast.Frame{Peer: e.peer, Data: f})
	}
	e.sender.wakeFor(e)
	if start || len(frames) > 0 {
		notify = k.notify
	}
	return notify, err
}

func (k *grpcLinks) Close() error {
	k.server.forget(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inbox.closed {
		return nil
	}
	k.inbox.close()
	for _, e := range k.ends {
		e.sender.leave(e)
	}
	return nil
}
