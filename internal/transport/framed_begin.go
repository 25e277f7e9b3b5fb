package transport

import (
	"errors"
	"time"
)

// framedCall is a call that its process answers later (Asynchronous), and for which no goroutine waits.
//
// The call ends exactly once: by its answer, by a withdrawal, or at its deadline. The goroutine that deletes
// the call from session.begun ends it.
type framedCall struct {
	session  *session
	service  *service
	process  Asynchronous
	id       uint64
	token    uint64    // token of the process; 0: Begin has not returned yet. GUARDED_BY session.pending
	deadline time.Time // zero: none
	held     int64     // bytes of the account that the call holds
}

// begin offers a call to its process (Asynchronous.Begin). If begun is false, the caller of begin must answer
// the call in a goroutine.
func (s *session) begin(c *framedCall, request []byte) (begun bool, err error) {
	s.pending.Lock()
	if s.begun[c.id] != nil || s.cancels[c.id] != nil {
		s.pending.Unlock()
		return false, duplicateCall(c.id)
	}
	s.begun[c.id] = c
	s.pending.Unlock()
	s.answers.Add(1)
	s.held.Store(true) // a turn may run
	token, begun := c.process.Begin(s.calls, request, c)
	s.held.Store(false)
	s.pending.Lock()
	defer s.pending.Unlock()
	if !begun {
		delete(s.begun, c.id)
		s.answers.Done()
		return false, nil
	}
	if s.begun[c.id] == c { // it is not answered yet
		c.token = token
		s.watch(c.deadline)
	}
	return true, nil
}

// watch schedules expire for a deadline. s.pending is held.
func (s *session) watch(deadline time.Time) {
	switch {
	case deadline.IsZero() || !s.expiry.IsZero() && !s.expiry.After(deadline):
		return
	case s.expirer == nil:
		s.expirer = time.AfterFunc(time.Until(deadline), s.expire)
	default:
		s.expirer.Reset(time.Until(deadline))
	}
	s.expiry = deadline
}

// expire ends the calls with passed deadlines.
func (s *session) expire() {
	var late []*framedCall
	s.pending.Lock()
	now := time.Now()
	s.expiry = time.Time{}
	for id, c := range s.begun {
		switch {
		case c.deadline.IsZero() || c.token == 0:
		case !c.deadline.After(now):
			delete(s.begun, id)
			late = append(late, c)
		default:
			s.watch(c.deadline)
		}
	}
	s.pending.Unlock()
	for _, c := range late {
		c.process.Withdraw(c.token)
		c.finish(kindLate, nil)
	}
}

// abandon ends a call that its caller has withdrawn, if the call was begun.
func (s *session) abandon(id uint64) {
	s.pending.Lock()
	c := s.begun[id]
	delete(s.begun, id)
	s.pending.Unlock()
	if c != nil {
		c.process.Withdraw(c.token)
		c.finish(kindLate, nil)
	}
}

// abandonAll ends all calls that were begun, because the connection has ended.
func (s *session) abandonAll() {
	s.pending.Lock()
	all := s.begun
	s.begun = nil
	if s.expirer != nil {
		s.expirer.Stop()
	}
	s.pending.Unlock()
	for _, c := range all {
		c.process.Withdraw(c.token)
		c.finish(kindLate, nil)
	}
}

// Answer implements Caller. It does not wait for the peer.
func (c *framedCall) Answer(reply []byte, err error) {
	s := c.session
	s.pending.Lock()
	waits := s.begun[c.id] == c
	if waits {
		delete(s.begun, c.id)
	}
	s.pending.Unlock()
	if !waits {
		return
	}
	reply, err = c.service.result(reply, err)
	var remote *RemoteError
	switch {
	case err == nil:
		c.finish(kindReply, reply)
	case errors.As(err, &remote):
		c.finish(kindFailed, []byte(remote.Text))
	default:
		c.finish(kindRefused, []byte(err.Error()))
	}
}

// finish sends the outcome of the call to the caller. If the peer does not take its data, the call stays
// under way, and a goroutine waits.
func (c *framedCall) finish(k kind, body []byte) {
	s := c.session
	long := k == kindReply && len(body) >= longReply
	if long && !s.account().reserve(len(body)) {
		k, body, long = kindRefused, []byte(tooManyReplies), false
	}
	if k != kindReply {
		body = body[:min(len(body), maxErrorText)]
	}
	start := appendHead(make([]byte, 0, headSize+min(len(body), smallMessage)), k, c.id, len(body))
	if len(body) <= smallMessage-headSize && s.trySoon(append(start, body...)) {
		c.leave()
		return
	}
	go func() { // session.serve waits for this goroutine
		defer c.leave()
		if err := s.send(s.ended, start, body); err != nil {
			s.fail(err)
		}
		if long {
			s.account().release(len(body))
		}
	}()
}

// leave returns the resources that the call has held.
func (c *framedCall) leave() {
	c.session.account().leave(c.held)
	<-c.session.slots
	c.session.answers.Done()
}
