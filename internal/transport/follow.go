package transport

import "time"

// join adds a link to the sender for an address. The mutex of the link's owner is held.
func (s *Server) join(address string, e *linkEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.senders[address]
	if w == nil {
		w = newSender(s, address)
		s.senders[address] = w
		if !s.closed {
			s.running.Go(w.run)
		}
	}
	e.sender = w
	w.join(e)
}

// follow moves the links to peers that have moved, and ends senders that have no links any more, until the
// server closes.
func (s *Server) follow() {
	tick := time.NewTicker(positionInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		all := make([]*sender, 0, len(s.senders))
		for _, w := range s.senders {
			all = append(all, w)
		}
		s.mu.Unlock()
		for _, w := range all {
			w.follow()
			s.retire(w)
		}
	}
}

// retire ends a sender that has no links.
func (s *Server) retire(w *sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.empty() {
		delete(s.senders, w.address)
		w.cancel()
	}
}

// follow moves the links to peers that are at another address now.
func (s *sender) follow() {
	for _, e := range s.all() {
		s.followOne(e)
	}
}

func (s *sender) followOne(e *linkEnd) {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	address, err := s.server.pool.resolve(e.peer)
	if err != nil || address == s.address || e.sender != s || e.owner.inbox.closed {
		return
	}
	s.server.pool.log.Info("a process has moved, and the link to it follows", "process", e.peer, "from", s.address, "to", address)
	s.leave(e)
	e.queued = false
	e.resume() // packets that were sent to the old address may be lost
	s.server.join(address, e)
	e.sender.wakeFor(e)
}
