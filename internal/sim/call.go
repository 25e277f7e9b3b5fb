package sim

import (
	"time"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// call is a request of a client that waits for the answer.
type call struct {
	turn.Call
	done      func(reply []byte, ok bool)
	over      bool
	taken     []taken
	withdrawn bool // the process has learned that the client no longer waits
}

// taken is the token of a request at a process. A repeated request has several tokens.
type taken struct{ incarnation, token uint64 }

// Call sends a request from a client outside of all processes to one process. The network chooses the token
// of the request. Call calls done once: with the answer, or with ok false after the timeout. After a timeout
// the request may have been executed, may be executed later, or may never be executed. Requests and answers
// can overtake each other, get lost and be repeated. Faults.WithdrawPercent of the calls without an answer
// are withdrawn: the process learns that the client no longer waits.
func (n *Network) Call(to multicast.ProcessID, request turn.Call, timeout time.Duration, done func(reply []byte, ok bool)) {
	c := &call{Call: request, done: done}
	p := n.processes[to]
	for range n.copies() {
		n.Schedule(n.now+n.trip(), func() { p.request(c) })
	}
	n.Schedule(n.now+timeout, func() { n.giveUp(p, c) })
}

// giveUp ends a call that was not answered in time.
func (n *Network) giveUp(p *process, c *call) {
	if c.over {
		return
	}
	if n.percent(n.cfg.Faults.WithdrawPercent) {
		for range n.copies() {
			n.Schedule(n.now+n.trip(), func() { p.withdraw(c) })
		}
	}
	c.finish(nil, false)
}

// withdraw informs the process that the client no longer waits for the answer to a call. The call may be
// answered already, or may still be on its way.
func (p *process) withdraw(c *call) {
	if !p.up || c.withdrawn {
		return
	}
	c.withdrawn = true
	for _, t := range c.taken {
		if p.runs(t.incarnation) {
			p.withdrawToken(t.token)
			p.wake()
		}
	}
}

func (p *process) withdrawToken(token uint64) {
	p.net.mark(Withdrawn)
	p.net.trace.add(p.net.now, "withdraw", p.id, token)
	delete(p.calls, token)
	p.input.Withdrawn = append(p.input.Withdrawn, token)
}

// request hands a request to the process under a new token, so the process cannot recognise a repeated
// request.
func (p *process) request(c *call) {
	if !p.up {
		return
	}
	p.net.token++
	token := p.net.token
	p.calls[token] = c
	c.taken = append(c.taken, taken{p.incarnation, token})
	p.net.trace.add(p.net.now, "request", p.id, token, digest(c.Data))
	p.input.Requests = append(p.input.Requests, turn.Call{Token: token, Data: c.Data, From: c.From})
	if c.withdrawn {
		p.withdrawToken(token)
	}
	p.wake()
}

// answer sends answers to the clients that wait for them.
func (p *process) answer(replies []turn.Call) {
	n := p.net
	for _, r := range replies {
		c := p.calls[r.Token]
		delete(p.calls, r.Token)
		n.trace.add(n.now, "reply", p.id, r.Token, digest(r.Data))
		if c == nil {
			continue
		}
		for range n.copies() {
			n.Schedule(n.now+n.trip(), func() { c.finish(r.Data, true) })
		}
	}
}

func (c *call) finish(reply []byte, ok bool) {
	if !c.over {
		c.over = true
		c.done(reply, ok)
	}
}

// trip draws the time that a message needs between a client and a process.
func (n *Network) trip() time.Duration {
	return n.between(n.cfg.LatencyMin, n.cfg.LatencyMax) + n.between(0, n.cfg.Jitter)
}

// copies draws the number of copies of a request or an answer that arrive: 0 if it is lost, 2 if it is
// repeated.
func (n *Network) copies() int {
	switch {
	case n.healed:
		return 1
	case n.percent(n.cfg.Faults.LossPercent):
		return 0
	case n.percent(n.cfg.Faults.RepeatPercent):
		return 2
	}
	return 1
}
