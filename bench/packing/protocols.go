package packing

import "slices"

// kinds are the protocols, in the order of the paper.
var kinds = []struct {
	name string
	make func(s *station) protocol
}{
	{"totem", func(s *station) protocol { return &totem{station: s, holds: s.id == 0} }},
	{"tomfc", func(s *station) protocol { return &totem{station: s, holds: s.id == 0, pack: true} }},
	{"total", func(s *station) protocol { return &total{station: s, holds: s.id == 0} }},
	{"dynord", func(s *station) protocol { return &dynord{station: s} }},
	{"dynseq", func(s *station) protocol { return &dynseq{station: s} }},
	{"dysfc", func(s *station) protocol { return &dynseq{station: s, pack: true} }},
}

func names() (all []string) {
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// totem sends when it holds the token, which goes round. An idle token rests for an interval at each process.
type totem struct {
	*station
	pack   bool
	holds  bool
	timed  bool
	buffer []message
}

func (t *totem) submit(burst []message) {
	t.buffer = append(t.buffer, burst...)
	t.pass()
}

func (t *totem) receive(p *packet) {
	t.handOver(p.messages)
	if p.token && p.holder == t.id {
		t.holds = true
		t.pass()
	}
}

// pass sends all buffered messages, and the token with the last of them.
func (t *totem) pass() {
	if !t.holds {
		return
	}
	if len(t.buffer) == 0 && !t.timed {
		t.timed = true
		t.net.schedule(t.net.now+t.net.cfg.Interval, t.timeout)
		return
	}
	t.flush()
}

func (t *totem) timeout() {
	t.timed = false
	if t.holds {
		t.flush()
	}
}

func (t *totem) flush() {
	all := t.buffer
	t.buffer, t.holds = nil, false
	for !t.pack && len(all) > 1 {
		t.send(&packet{to: everyone, holder: -1, messages: all[:1]})
		t.handOver(all[:1])
		all = all[1:]
	}
	t.send(&packet{to: everyone, messages: all, token: true, holder: (t.id + 1) % t.net.cfg.Processes})
	t.handOver(all)
}

// total sends when it holds the token, which goes to the processes that have requested it.
type total struct {
	*station
	holds     bool
	requested bool  // this process has a request that was not served
	requests  []int // of others that this process knows of
	buffer    []message
}

func (t *total) submit(burst []message) {
	t.buffer = append(t.buffer, burst...)
	switch {
	case t.holds: // it may send whenever the application wishes: a packet for each message
		for _, m := range burst {
			t.send(&packet{to: everyone, holder: -1, messages: []message{m}})
			t.handOver([]message{m})
		}
		t.buffer = nil
		t.pass()
	case !t.requested:
		t.requested = true
		t.send(&packet{to: everyone, holder: -1, request: true})
	}
}

func (t *total) receive(p *packet) {
	t.handOver(p.messages)
	if p.request && !slices.Contains(t.requests, p.from) {
		t.requests = append(t.requests, p.from)
	}
	if p.token {
		t.requests = slices.DeleteFunc(t.requests, func(id int) bool { return id == p.holder })
		t.holds = p.holder == t.id
		if t.holds {
			t.requested = false
		}
	}
	if t.holds {
		t.pass()
	}
}

// pass sends the buffered messages as one, and the token to a process that has requested it.
func (t *total) pass() {
	p := &packet{to: everyone, holder: -1, messages: t.buffer}
	if len(t.requests) > 0 {
		p.token, p.holder = true, t.requests[0]
		t.requests = t.requests[1:]
		t.holds = false
		p.request = len(t.buffer) > 0 // locality: a sender will send again
		t.requested = p.request
	}
	if len(p.messages) == 0 && !p.token {
		return
	}
	t.buffer = nil
	sent := p.messages
	t.send(p)
	t.handOver(sent)
}

func (t *total) timeout() {}

// dynord broadcasts at once; process 0 broadcasts the order of all messages that it has received.
type dynord struct {
	*station
	received map[message]bool
	ordered  []message // that were not delivered
	pending  []message // of the orderer: not yet told
	timed    bool
}

const orderer = 0

func (d *dynord) submit(burst []message) {
	for _, m := range burst {
		p := &packet{to: everyone, holder: -1, messages: []message{m}}
		if d.id == orderer {
			p.order = slices.Concat(d.pending, p.messages)
			d.pending = nil
			d.handOver([]message{m})
		} else {
			d.keep(p.messages)
		}
		d.send(p)
	}
}

func (d *dynord) keep(messages []message) {
	if d.received == nil {
		d.received = map[message]bool{}
	}
	for _, m := range messages {
		d.received[m] = true
	}
}

func (d *dynord) receive(p *packet) {
	if d.id == orderer {
		d.handOver(p.messages)
		d.pending = append(d.pending, p.messages...)
		if !d.timed {
			d.timed = true
			d.net.schedule(d.net.now+d.net.cfg.Interval, d.timeout)
		}
		return
	}
	d.keep(p.messages)
	d.ordered = append(d.ordered, p.order...)
	ready := 0
	for ready < len(d.ordered) && d.received[d.ordered[ready]] {
		delete(d.received, d.ordered[ready])
		ready++
	}
	d.handOver(d.ordered[:ready])
	d.ordered = d.ordered[ready:]
}

func (d *dynord) timeout() {
	d.timed = false
	if len(d.pending) > 0 {
		d.send(&packet{to: everyone, holder: -1, order: d.pending})
		d.pending = nil
	}
}

// dynseq sends to process 0, which broadcasts.
type dynseq struct {
	*station
	pack   bool
	timed  bool
	buffer []message
}

func (d *dynseq) submit(burst []message) {
	if !d.pack {
		for _, m := range burst {
			d.forward([]message{m})
		}
		return
	}
	d.buffer = append(d.buffer, burst...)
	if !d.timed {
		d.timed = true
		d.net.schedule(d.net.now+d.net.cfg.Interval, d.timeout)
	}
}

func (d *dynseq) timeout() {
	d.timed = false
	if all := d.buffer; len(all) > 0 {
		d.buffer = nil
		d.forward(all)
	}
}

func (d *dynseq) forward(all []message) {
	if d.id != orderer {
		d.send(&packet{to: orderer, holder: -1, messages: all})
		return
	}
	d.send(&packet{to: everyone, holder: -1, messages: all})
	d.handOver(all)
}

func (d *dynseq) receive(p *packet) {
	switch {
	case d.id != orderer:
		d.handOver(p.messages)
	case d.pack:
		d.submit(p.messages)
	default:
		d.forward(p.messages)
	}
}
