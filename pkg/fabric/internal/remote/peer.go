package remote

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Peer is the initiator's end of the queues to a peer that have one connection at a time. All answers of the
// connection come in the order of Post.
type Peer struct {
	id       fabric.NodeID
	complete func(fabric.Completion)
	queues   map[fabric.RegionID]*queue
	unsent   []*Pending
	sent     []*Pending // answers come in this order
}

// queue is the initiator's end of a queue.
type queue struct {
	broken    bool
	lost      bool // the connection failed, and no operation has been told
	resetting bool
	waiting   int // operations without a completion
}

// Pending is an operation without a completion. A local one is not sent: its status is known.
type Pending struct {
	fabric.Op
	queue  *queue
	local  bool
	status fabric.Status
}

// NewPeer makes the end of queues without operations. complete takes the completions; Peer's methods call it.
func NewPeer(id fabric.NodeID, complete func(fabric.Completion)) *Peer {
	return &Peer{id: id, complete: complete, queues: map[fabric.RegionID]*queue{}}
}

// Post begins an operation. It reports whether Take has something new.
func (o *Peer) Post(op *fabric.Op) bool {
	q := o.queues[op.Region]
	if q == nil {
		q = &queue{}
		o.queues[op.Region] = q
	}
	p := &Pending{Op: *op, queue: q}
	switch {
	case op.Kind == fabric.Reset:
		q.resetting, q.lost = true, false
	case q.lost:
		p.local, p.status = true, fabric.Lost
		q.lost, q.broken = false, true
	case q.broken || q.resetting:
		p.local, p.status = true, fabric.Flushed
	}
	q.waiting++
	if p.local && q.waiting == 1 {
		o.end(p, p.status, nil, 0)
		return false
	}
	o.unsent = append(o.unsent, p)
	return true
}

// end reports an operation.
func (o *Peer) end(p *Pending, status fabric.Status, data []byte, incarnation uint64) {
	q := p.queue
	q.waiting--
	if p.Kind == fabric.Reset {
		q.resetting, q.broken = false, status != fabric.OK
	} else if status != fabric.OK {
		q.broken = true
	}
	c := fabric.Completion{Token: p.Token, Kind: p.Kind, Peer: o.id, Region: p.Region, Status: status, Data: data}
	if p.Kind == fabric.Reset && status == fabric.OK {
		c.Incarnation = incarnation
	}
	o.complete(c)
}

// Take returns the operations that are to be sent. They count as sent from now on: Lose loses them.
func (o *Peer) Take() (batch []*Pending) {
	for _, p := range o.unsent {
		if !p.local {
			batch = append(batch, p)
		}
	}
	o.sent = append(o.sent, o.unsent...)
	o.unsent = nil
	o.endLocal()
	return batch
}

// endLocal reports the local operations that are next.
func (o *Peer) endLocal() {
	for len(o.sent) > 0 && o.sent[0].local {
		p := o.sent[0]
		o.sent = o.sent[1:]
		o.end(p, p.status, nil, 0)
	}
}

// Idle reports whether no operation that was taken waits for an answer.
func (o *Peer) Idle() bool { return len(o.sent) == 0 }

// Expects checks the fixed part of the next answer. Its length must be the one that was asked for.
func (o *Peer) Expects(a Answer) error {
	if len(o.sent) == 0 || a.Status == fabric.Lost || a.Status > fabric.Flushed {
		return fmt.Errorf("node %d answers with %v, %d operations wait: it is broken or of another version", o.id, a.Status, len(o.sent))
	}
	want := 0
	if a.Status == fabric.OK && o.sent[0].Kind == fabric.Read {
		want = o.sent[0].Length
	}
	if a.Length != want {
		return fmt.Errorf("node %d answers with %d bytes, not %d: it is broken or of another version", o.id, a.Length, want)
	}
	return nil
}

// Answered reports the end of the oldest operation that was taken. Expects has checked the answer.
func (o *Peer) Answered(a Answer, data []byte) {
	p := o.sent[0]
	o.sent = o.sent[1:]
	o.end(p, a.Status, data, a.Incarnation)
	o.endLocal()
}

// Lose ends all operations after the end of the connection, and breaks all queues.
func (o *Peer) Lose() {
	for _, q := range o.queues {
		q.lost = !q.broken && !q.resetting && q.waiting == 0
	}
	for _, p := range append(o.sent, o.unsent...) {
		status := fabric.Lost
		if p.local {
			status = p.status
		}
		o.end(p, status, nil, 0)
	}
	o.sent, o.unsent = nil, nil
}
