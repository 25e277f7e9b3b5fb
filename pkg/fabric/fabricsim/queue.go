package fabricsim

import (
	"math"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// address names a region in the network.
type address struct {
	peer   fabric.NodeID
	region fabric.RegionID
}

// queue is a queue of package fabric, with both of its ends.
type queue struct {
	address
	from *Endpoint

	// The state at the initiator.
	era         uint64 // the era of the operations that are posted now; each Reset begins an era
	broken      bool
	outstanding []*pending // the operations without a completion, in order
	lastSent    time.Duration
	lastArrival time.Duration
	lastReply   time.Duration

	// The state at the target.
	live    uint64 // the era whose operations are executed
	target  uint64 // the incarnation of the target to which the queue is connected
	refused bool   // no further operations of this era are executed
	gap     uint64 // the number of the first lost operation of this era: no later one is executed; 0: none
	inbox   []*pending
	busy    bool // a write is landing
}

// pending is an operation under way.
type pending struct {
	fabric.Op
	posted uint64
	era    uint64
	done   bool
	status fabric.Status
	data   []byte
	target uint64
}

func (q *queue) net() *Network { return q.from.net }

// to returns the target; nil if it is not up.
func (q *queue) to() *Endpoint {
	if e := q.net().nodes[q.peer]; e != nil && e.up {
		return e
	}
	return nil
}

// post begins an operation.
func (q *queue) post(op fabric.Op) {
	n := q.net()
	n.posted++
	p := &pending{Op: op, posted: n.posted}
	n.count(op.Kind)
	switch {
	case op.Kind == fabric.Reset:
		q.failAll(fabric.Lost)
		q.drain()
		q.broken = true
		q.era++
	case q.broken:
		p.done, p.status = true, fabric.Flushed
	}
	p.era = q.era
	q.outstanding = append(q.outstanding, p)
	if p.done {
		q.drain()
		return
	}
	q.send(p)
}

func (n *Network) count(kind fabric.Kind) {
	switch kind {
	case fabric.Write:
		n.stats.Writes++
	case fabric.Read:
		n.stats.Reads++
	case fabric.Reset:
		n.stats.Resets++
	}
}

// send sends an operation to the target, or loses it. The initiator sees a loss after Config.Timeout. A lost
// operation may still arrive late, if it is the first one lost of its era: the target executes an operation
// only after all earlier ones, so each later operation of the era is lost, too (gap).
func (q *queue) send(p *pending) {
	n := q.net()
	q.lastSent = max(q.lastSent, n.now) + n.transmission(len(p.Data))
	q.lastArrival = max(q.lastArrival, q.lastSent+n.delay(q.from.id, q.peer))
	at := q.lastArrival
	if n.cut(q.from.id, q.peer) || q.peer != q.from.id && n.chance(n.cfg.Faults.Lose) {
		n.stats.Lost++
		q.lose(p)
		if p.Kind == fabric.Reset {
			return
		}
		if q.gap == 0 && n.rng.IntN(2) == 0 && !n.cuts[link{q.from.id, q.peer}] {
			n.Schedule(at+n.between(0, 3*n.cfg.Timeout), func() { q.arrive(p, true) })
		}
		if q.gap == 0 {
			q.gap = p.posted
		}
		return
	}
	n.Schedule(at, func() { q.arrive(p, false) })
}

// lose reports an operation as lost after Config.Timeout.
func (q *queue) lose(p *pending) {
	n := q.net()
	n.Schedule(n.now+n.cfg.Timeout, func() {
		p.finish(fabric.Lost)
		q.drain()
	})
}

func (p *pending) finish(status fabric.Status) {
	if !p.done {
		p.done, p.status = true, status
	}
}

// arrive handles the arrival of an operation at the target.
func (q *queue) arrive(p *pending, late bool) {
	to := q.to()
	switch {
	case to == nil, p.Kind == fabric.Reset && p.era < q.live:
		q.lose(p)
		return
	case p.Kind == fabric.Reset:
		q.reset(p, to)
		return
	case p.era != q.live || to.incarnation != q.target || q.gap != 0 && p.posted > q.gap:
		q.lose(p)
		return
	case late:
		q.net().stats.LandedLate++
	}
	q.inbox = append(q.inbox, p)
	q.next()
}

// reset begins a new era. An operation that was posted before and is not executed yet will never be executed.
func (q *queue) reset(p *pending, to *Endpoint) {
	q.live, q.target = p.era, to.incarnation
	q.refused, q.busy, q.gap, q.inbox = false, false, 0, nil
	p.target = to.incarnation
	q.reply(p, fabric.OK)
}

// next executes the operations that have arrived, one after the other.
func (q *queue) next() {
	for !q.busy && len(q.inbox) > 0 {
		p := q.inbox[0]
		q.inbox = q.inbox[1:]
		r := q.region(p)
		switch {
		case q.refused:
			q.reply(p, fabric.Flushed)
		case r == nil:
			q.refuse(p)
		case p.Kind == fabric.Read:
			p.data = append([]byte{}, r.bytes[p.At:p.At+p.Length]...)
			q.reply(p, fabric.OK)
		case len(p.Data) > 8 && q.net().chance(q.net().cfg.Faults.Tear):
			q.tear(p)
		default:
			copy(r.bytes[p.At:], p.Data)
			q.landed(p)
		}
	}
}

// refuse ends an era at the target.
func (q *queue) refuse(p *pending) {
	q.net().stats.Denied++
	q.refused = true
	q.reply(p, fabric.Denied)
}

// region returns the region if the operation may be executed there, or nil.
func (q *queue) region(p *pending) *region {
	to := q.to()
	if to == nil {
		return nil
	}
	need := fabric.Writable
	if p.Kind == fabric.Read {
		need = fabric.Readable
	}
	r := to.regions[q.address.region]
	if r == nil || r.rights[q.from.id]&need == 0 || p.At+p.Size() > len(r.bytes) {
		return nil
	}
	return r
}

// landed reports a complete write.
func (q *queue) landed(p *pending) {
	to := q.to()
	if p.Notify {
		to.events.Landed = append(to.events.Landed, fabric.Landed{
			From: q.from.id, Region: q.address.region, At: p.At, Length: len(p.Data), Note: p.Note,
		})
	}
	to.change()
	q.reply(p, fabric.OK)
}

// tear schedules the pieces of a write, which become visible one after the other.
func (q *queue) tear(p *pending) {
	n := q.net()
	n.stats.Torn++
	q.busy = true
	pieces := n.pieces(p)
	at := n.now
	for i, piece := range pieces {
		at += n.between(0, n.cfg.Faults.TearMax)
		last := i == len(pieces)-1
		n.Schedule(at, func() { q.land(p, piece, last) })
	}
}

// pieces divides a write at random addresses that are divisible by 8, and shuffles the pieces.
func (n *Network) pieces(p *pending) [][2]int {
	var cuts []int
	for at := (p.At/8 + 1) * 8; at < p.At+len(p.Data); at += 8 {
		cuts = append(cuts, at-p.At)
	}
	n.rng.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
	cuts = cuts[:min(len(cuts), 1+n.rng.IntN(4))]
	marks := make([]bool, len(p.Data))
	for _, c := range cuts {
		marks[c] = true
	}
	var pieces [][2]int
	begin := 0
	for i := range marks {
		if marks[i] {
			pieces = append(pieces, [2]int{begin, i})
			begin = i
		}
	}
	pieces = append(pieces, [2]int{begin, len(p.Data)})
	n.rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	return pieces
}

// land makes a piece visible, if the peer still has the right to write.
func (q *queue) land(p *pending, piece [2]int, last bool) {
	to := q.to()
	if p.era != q.live || !q.busy {
		return // a reset has ended the write
	}
	if to == nil || to.incarnation != q.target {
		if last {
			q.lose(p) // the target has stopped
		}
		return
	}
	r := q.region(p)
	if r == nil {
		q.net().stats.Halved++
		q.busy = false
		q.refuse(p)
		q.next()
		return
	}
	copy(r.bytes[p.At+piece[0]:], p.Data[piece[0]:piece[1]])
	to.change()
	if last {
		q.busy = false
		q.landed(p)
		q.next()
	}
}

// reply sends the result of an operation to the initiator, or loses it.
func (q *queue) reply(p *pending, status fabric.Status) {
	n := q.net()
	if n.cut(q.peer, q.from.id) || q.peer != q.from.id && n.chance(n.cfg.Faults.LoseReply) {
		n.stats.LostReplies++
		q.lose(p)
		return
	}
	at := n.now + n.delay(q.peer, q.from.id) + n.transmission(len(p.data))
	if n.chance(n.cfg.Faults.Late) {
		at += n.between(0, n.cfg.Faults.LateMax)
	}
	q.lastReply = max(q.lastReply, at)
	n.Schedule(q.lastReply, func() {
		p.finish(status)
		q.drain()
	})
}

// drain reports the operations that have ended, in order. The first failure breaks the queue.
func (q *queue) drain() {
	for len(q.outstanding) > 0 && q.outstanding[0].done {
		p := q.outstanding[0]
		q.outstanding = q.outstanding[1:]
		switch {
		case p.Kind == fabric.Reset:
			q.broken = p.status != fabric.OK
		case p.status != fabric.OK && !q.broken:
			q.broken = true
			if p.status == fabric.Lost {
				q.failAll(fabric.Lost)
			} else {
				q.failAll(fabric.Flushed)
			}
		}
		if !q.from.up {
			continue
		}
		c := fabric.Completion{Token: p.Token, Kind: p.Kind, Peer: q.peer, Region: q.address.region, Status: p.status}
		if p.status == fabric.OK {
			c.Data, c.Incarnation = p.data, p.target
		}
		q.from.events.Completions = append(q.from.events.Completions, c)
		q.from.change()
	}
}

// failAll ends the outstanding operations with a status, also the successful ones, because their completions
// were not reported yet.
func (q *queue) failAll(status fabric.Status) {
	for _, p := range q.outstanding {
		if !p.done || p.status == fabric.OK {
			p.done, p.status = true, status
		}
	}
}

// abandon ends a queue of an initiator that has stopped. The peer may still execute the oldest landing
// operations.
func (q *queue) abandon(landing int) {
	last := uint64(math.MaxUint64)
	if landing < len(q.outstanding) {
		last = q.outstanding[landing].posted - 1
	}
	if q.gap == 0 || last < q.gap {
		q.gap = max(last, 1)
	}
	if landing == 0 {
		q.live = math.MaxUint64 // nothing lands, not even the rest of a write
	}
	q.outstanding = nil
}
