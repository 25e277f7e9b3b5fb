package remote

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Peer is the initiator's end of queues to one peer that share a connection. All answers of the connection
// come in the order of Post.
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
	lost      bool // the connection failed, and no operation has reported this yet
	resetting bool
	waiting   int // operations without a completion
}

// Pending is an operation without a completion. A local operation has a known status and is not sent.
type Pending struct {
	fabric.Op
	queue  *queue
	local  bool
	status fabric.Status
}

// NewPeer returns a Peer without operations. The methods of Peer call complete for each completion.
func NewPeer(id fabric.NodeID, complete func(fabric.Completion)) *Peer {
	return &Peer{id: id, complete: complete, queues: map[fabric.RegionID]*queue{}}
}

// Post begins an operation. It reports whether Take has a new operation to return.
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

// end completes an operation, and updates the state of its queue.
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

// Take returns the operations that the caller must send. They count as sent from now on.
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

// endLocal completes the local operations before the next operation that waits for an answer.
func (o *Peer) endLocal() {
	for len(o.sent) > 0 && o.sent[0].local {
		p := o.sent[0]
		o.sent = o.sent[1:]
		o.end(p, p.status, nil, 0)
	}
}

// Idle reports whether all sent operations have their answers.
func (o *Peer) Idle() bool { return len(o.sent) == 0 }

// Expects validates the fixed part of the next answer: the status is possible, and the length is the one that
// the operation has requested.
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

// Answered completes the oldest sent operation. Expects has validated the answer.
func (o *Peer) Answered(a Answer, data []byte) {
	p := o.sent[0]
	o.sent = o.sent[1:]
	o.end(p, a.Status, data, a.Incarnation)
	o.endLocal()
}

// Lose completes all operations as lost after the end of the connection, and breaks all queues.
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
