package heron

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

type fetchState uint8

const (
	choosing fetchState = iota // a process
	unasked                    // a process is chosen, its address of the object is not known
	asked
	reading
	fetchedAll
)

// fetch is the read of a remote object for the current request.
type fetch struct {
	id     ObjectID
	group  multicast.GroupID
	state  fetchState
	from   *peer
	number uint64        // of the question, or of the read
	index  int           // in the question
	since  time.Duration // when the process was asked
	tried  map[multicast.ProcessID]bool
	past   bool // a process that was tried has no version of the time of the request any more
}

// begin starts to read the remote objects of a request (Algorithm 2, lines 2 to 7).
func (c *Core) begin(r *request) {
	seen := map[ObjectID]bool{}
	for _, id := range c.cfg.App.Reads(c.group.ID, r.delivery.Payload) {
		h := c.cfg.App.Owner(id)
		if h == c.group.ID || !r.delivery.To(h) || seen[id] {
			continue
		}
		seen[id] = true
		r.fetches = append(r.fetches, &fetch{id: id, group: h, tried: map[multicast.ProcessID]bool{}})
	}
}

// fetchAll goes on with all reads. It reports whether all values are there.
func (c *Core) fetchAll(r *request) bool {
	done := true
	for _, f := range r.fetches {
		if f.state == asked && c.wakeAfter(f.since, c.cfg.HelpAfter) {
			f.giveUp()
		}
		if f.state == choosing && !c.choose(r, f) {
			c.lag()
			return false
		}
		done = done && f.state == fetchedAll
	}
	if !done {
		c.ask(r)
	}
	return done
}

// choose selects a process for a read (lines 14 to 18). It returns false if no process can have the value any
// more: this process is a lagger (lines 23 and 24, V4).
func (c *Core) choose(r *request, f *fetch) bool {
	if _, ok := r.places[f.group]; !ok {
		return false // all members that have sent a note are past the request
	}
	p := c.candidate(f)
	if p == nil {
		clear(f.tried)
		c.lanes.WakeAt(c.now + c.cfg.RetryAfter)
		return !f.past
	}
	f.from, f.state = p, unasked
	if slot, ok := c.slotHints[f.id]; ok {
		c.read(f, slot)
	}
	return true
}

// candidate returns a process that has coordinated in phase 2 (select_proc), and that was not tried.
// Processes that are at the request come before those that are past it.
func (c *Core) candidate(f *fetch) (best *peer) {
	count := c.meetings[f.group].count
	members := c.groups[f.group].Members
	for i := range members {
		p := c.peers[members[(i+int(c.cfg.Self))%len(members)]]
		switch {
		case f.tried[p.id] || p.received.count < count || !p.reads.Ready():
		case best == nil || best.received.count > count && p.received.count == count:
			best = p
		}
	}
	return best
}

// ask asks processes for the slots of objects (lines 9 and 10): one question at a time to each.
func (c *Core) ask(r *request) {
	open, count := map[*peer]bool{}, map[*peer]int{}
	for _, f := range r.fetches {
		open[f.from] = open[f.from] || f.state == asked
	}
	for _, f := range r.fetches {
		p := f.from
		if f.state != unasked || open[p] || count[p] == maxAsk {
			continue
		}
		if count[p] == 0 {
			c.lastQuestion++
			p.want.ask, p.want.wanted = c.lastQuestion, [maxAsk]ObjectID{}
		}
		f.state, f.number, f.index, f.since = asked, c.lastQuestion, count[p], c.now
		p.want.wanted[f.index] = f.id
		count[p]++
	}
}

// answer answers a question of a process, and takes in its answer (lines 11 to 13).
func (c *Core) answer(p *peer) {
	if p.received.ask != p.want.answered {
		p.want.answered = p.received.ask
		for i, id := range p.received.wanted {
			p.want.slots[i] = 0
			if slot, ok := c.objects.slots[id]; ok {
				p.want.slots[i] = uint32(slot) + 1
			}
		}
	}
	if c.current == nil {
		return
	}
	for _, f := range c.current.fetches {
		if f.state != asked || f.from != p || f.number != p.received.answered {
			continue
		}
		switch slot := int(p.received.slots[f.index]); {
		case slot > c.cfg.Objects:
			c.stats.Malformed++
			f.giveUp()
		case slot == 0: // by C1 the object was not written before the request
			f.state = fetchedAll
		default:
			c.slotHints[f.id] = slot - 1
			c.read(f, slot-1)
		}
	}
}

// giveUp ends the attempt with a process, so that another one is chosen.
func (f *fetch) giveUp() {
	f.tried[f.from.id] = true
	f.from, f.state = nil, choosing
}

// read reads an object (line 19).
func (c *Core) read(f *fetch, slot int) {
	if !f.from.reads.Ready() {
		f.giveUp()
		return
	}
	c.stats.Remote++
	c.reads++
	f.state, f.number = reading, c.reads
	size := c.cfg.slotSize()
	f.from.reads.Post(fabric.Op{Kind: fabric.Read, At: slot * size, Length: size}, c.reads, 0)
}

// reader is Core as the owner of the lanes to remote objects.
type reader Core

// fetch returns the read with a number, or nil: the request was covered by a transfer.
func (r *reader) fetch(number uint64) *fetch {
	if r.current != nil {
		for _, f := range r.current.fetches {
			if f.state == reading && f.number == number {
				return f
			}
		}
	}
	return nil
}

// Landed implements lane.Owner: an object has come (lines 22 to 28).
func (r *reader) Landed(flight lane.Flight, d *fabric.Completion) {
	c, f := (*Core)(r), r.fetch(flight.Mark)
	if f == nil {
		return
	}
	id := ObjectID(le.Uint64(d.Data))
	v, sight := version{}, found
	switch {
	case id == f.id:
		v, sight = c.cfg.before(f.id, d.Data, c.current.places[f.group]+1)
	case id != 0:
		c.stats.Malformed++
		delete(c.slotHints, f.id)
		f.giveUp()
		return
	} // An empty slot: by C1 the object was not written before the request.
	switch sight {
	case found:
		f.state = fetchedAll
		c.current.values[f.id] = v.value
	case unclear:
		c.stats.Unclear++
		f.from, f.state = nil, choosing // the same process again, or another one
	case past:
		c.stats.Past++
		f.past = true
		f.giveUp()
	}
}

// Failed implements lane.Owner (lines 20 and 21).
func (r *reader) Failed(flight lane.Flight) {
	if f := r.fetch(flight.Mark); f != nil {
		f.giveUp()
	}
}
