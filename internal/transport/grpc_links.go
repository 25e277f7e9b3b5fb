package transport

import (
	"context"
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
	mu    sync.Mutex
	inbox inbox[multicast.Frame]
	ends  map[multicast.ProcessID]*linkEnd
}

// linkEnd is a link with its owner and the way to its peer.
type linkEnd struct {
	link   // guarded by owner.mu, as the rest
	owner  *grpcLinks
	sender *sender // changes when the peer moves
	queued bool    // waits at the sender
}

func newGRPCLinks(s *Server, self multicast.ProcessID, incarnation uint64) *grpcLinks {
	k := &grpcLinks{server: s, self: self, incarnation: incarnation, ends: map[multicast.ProcessID]*linkEnd{}}
	k.inbox = newInbox[multicast.Frame](&k.mu)
	return k
}

// end gives the link to peer, or nil if nobody knows where that is. k.mu is held.
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
	e.sender.wakeFor(e)
	return err
}

func (k *grpcLinks) Accept(peer multicast.ProcessID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.ends[peer]; e != nil {
		e.accept()
	}
}

func (k *grpcLinks) Receive(ctx context.Context, into []multicast.Frame) (n int, err error) {
	if err := k.inbox.lockReady(ctx); err != nil {
		return 0, err
	}
	defer k.inbox.unlock()
	for n < len(into) {
		f, ok := k.inbox.take()
		if !ok {
			break
		}
		into[n] = f
		n++
		e := k.ends[f.Peer]
		e.took(f.Data)
		e.sender.wakeFor(e)
	}
	return n, nil
}

// deliver takes in a packet of a peer.
func (k *grpcLinks) deliver(p *wire.Packet) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inbox.closed {
		return nil
	}
	e := k.end(multicast.ProcessID(p.From))
	if e == nil {
		return nil // we could not answer
	}
	start, frames, err := e.receive(p)
	if start {
		k.inbox.push(multicast.Frame{Peer: e.peer})
	}
	for _, f := range frames {
		k.inbox.push(multicast.Frame{Peer: e.peer, Data: f})
	}
	e.sender.wakeFor(e)
	return err
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
