package fabricsim

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Endpoint is a node of a Network. It implements fabric.Endpoint. Its methods must not be called
// concurrently.
type Endpoint struct {
	net         *Network
	id          fabric.NodeID
	up          bool
	incarnation uint64
	regions     map[fabric.RegionID]*region
	queues      map[address]*queue
	list        []*queue // in the order of their creation
	events      fabric.Events
	changed     bool // since the last Wait
	woken       func()
}

// region is memory that peers can read and write by operations.
type region struct {
	bytes  []byte
	rights map[fabric.NodeID]fabric.Rights
}

// Size implements fabric.Memory.
func (r *region) Size() int { return len(r.bytes) }

// Load implements fabric.Memory.
func (r *region) Load(at int, into []byte) { copy(into, r.bytes[at:at+len(into)]) }

// Store implements fabric.Memory.
func (r *region) Store(at int, data []byte) { copy(r.bytes[at:at+len(data)], data) }

var _ fabric.Endpoint = (*Endpoint)(nil)

// OnChange sets the function woken, which is called whenever Poll would return events or a region may have
// changed.
func (e *Endpoint) OnChange(woken func()) { e.woken = woken }

// Register implements fabric.Endpoint.
func (e *Endpoint) Register(id fabric.RegionID, size int) (fabric.Memory, error) {
	switch {
	case !e.up:
		return nil, fmt.Errorf("fabricsim: node %d has stopped", e.id)
	case e.regions[id] != nil:
		return nil, fmt.Errorf("fabricsim: node %d has a region %d already: choose another number", e.id, id)
	case size <= 0 || size%8 != 0 || size > fabric.MaxRegion:
		return nil, fmt.Errorf("fabricsim: region %d of %d bytes: give a multiple of 8, at most %d", id, size, fabric.MaxRegion)
	}
	r := &region{bytes: make([]byte, size), rights: map[fabric.NodeID]fabric.Rights{}}
	e.regions[id] = r
	return r, nil
}

// Grant implements fabric.Endpoint.
func (e *Endpoint) Grant(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	r := e.regions[id]
	if r == nil {
		return fmt.Errorf("fabricsim: node %d has no region %d: register it", e.id, id)
	}
	r.rights[peer] |= rights
	return nil
}

// Revoke implements fabric.Endpoint.
func (e *Endpoint) Revoke(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	r := e.regions[id]
	if r == nil {
		return fmt.Errorf("fabricsim: node %d has no region %d: register it", e.id, id)
	}
	r.rights[peer] &^= rights
	return nil
}

// Post implements fabric.Endpoint.
func (e *Endpoint) Post(ops ...fabric.Op) error {
	for i := range ops {
		if !e.up {
			return fmt.Errorf("fabricsim: node %d has stopped", e.id)
		}
		if err := ops[i].Validate(); err != nil {
			return err
		}
		e.queue(ops[i].Peer, ops[i].Region).post(ops[i])
	}
	return nil
}

// Poll implements fabric.Endpoint.
func (e *Endpoint) Poll(into *fabric.Events) {
	into.Completions = append(into.Completions, e.events.Completions...)
	into.Landed = append(into.Landed, e.events.Landed...)
	e.events.Reset()
}

// Wait implements fabric.Endpoint: it lets virtual time pass.
func (e *Endpoint) Wait(atMost time.Duration) {
	until := e.net.now + atMost
	for !e.changed && !e.events.Any() {
		if at, ok := e.net.Next(); !ok || at > until {
			e.net.now = until
			break
		}
		e.net.Step()
	}
	e.changed = false
}

// Close implements fabric.Endpoint.
func (e *Endpoint) Close() error {
	e.stop(0)
	return nil
}

// stop stops a node. In each queue, the peer may still execute the oldest landing operations that are under
// way.
func (e *Endpoint) stop(landing int) {
	for _, q := range e.list {
		q.abandon(landing)
	}
	e.up, e.regions, e.events = false, nil, fabric.Events{}
}

// change records that there is an event or a change of a region.
func (e *Endpoint) change() {
	e.changed = true
	if e.woken != nil && e.up {
		e.woken()
	}
}

// queue returns the queue to a region of a peer.
func (e *Endpoint) queue(peer fabric.NodeID, id fabric.RegionID) *queue {
	at := address{peer, id}
	q := e.queues[at]
	if q == nil {
		q = &queue{from: e, address: at, live: 1, era: 1}
		if to := e.net.nodes[peer]; to != nil {
			q.target = to.incarnation
		}
		e.queues[at] = q
		e.list = append(e.list, q)
	}
	return q
}
