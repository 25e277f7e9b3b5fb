//go:build verbs

package verbs

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// The data of operations goes through slots of registered memory. An operation that is larger than a slot has
// several work requests.
const (
	slots    = 128
	slotSize = 4096
)

// state is the state of the initiator's end of a queue pair.
type state uint8

const (
	fresh   state = iota // no operation was posted yet
	opening              // a goroutine connects the queue pair
	up
	broken // all operations before the next reset are flushed
)

// queue is the initiator's end of a queue pair. The endpoint's lock guards all fields. Exception: in state
// opening, pair and stage belong to the goroutine that connects.
type queue struct {
	id      uint32
	region  fabric.RegionID
	to      *outgoing
	ops     *remote.Peer
	pair    *pair
	stage   *memory
	state   state
	line    *line // the connection that has set up the queue pair
	target  reply
	todo    []*remote.Pending
	offset  int             // bytes of todo[0] that were posted
	written bool            // all bytes of todo[0] were posted; the note was not
	posted  uint32          // the number of work requests
	flying  []work          // the work requests without a result
	deaf    bool            // the operations of flying were reported as lost: ignore the results
	ended   *remote.Pending // an operation that was refused: ignore the results of its other work requests
	data    []byte          // the data of the current read that has arrived
	asked   *remote.Pending // the operation that has started the last set-up
}

// work is a work request without a result.
type work struct {
	op     *remote.Pending
	slot   int
	length int
	last   bool // it is the last work request of op
}

// push posts work requests for the waiting operations, as far as there are slots. It sets up the queue pair
// if necessary. The caller holds the lock.
func (q *queue) push() {
	q.todo = append(q.todo, q.ops.Take()...)
	for len(q.todo) > 0 && q.state != opening {
		p := q.todo[0]
		quiet := len(q.flying) == 0
		switch {
		case q.state == up && q.target.status == opened && p.Kind != fabric.Reset && p.At+p.Size() <= int(q.target.size):
			if !q.post(p) {
				return
			}
		case !quiet:
			return // completions must come in the order of the operations
		case p.Kind == fabric.Reset || q.state == fresh || q.state == up && q.target.status == absent && q.asked != p:
			q.open(p)
		case q.state == up:
			q.state = broken
			q.finish(remote.Answer{Status: fabric.Denied})
		default:
			q.finish(remote.Answer{Status: fabric.Flushed})
		}
	}
}

// finish completes todo[0], which has no posted work request.
func (q *queue) finish(a remote.Answer) {
	q.todo = q.todo[1:]
	q.ops.Answered(a, nil)
}

// post posts work requests of p, and reports whether all of them were posted.
func (q *queue) post(p *remote.Pending) bool {
	for len(q.flying) < slots {
		slot := int(q.posted % slots)
		stage := q.stage.bytes[slot*slotSize : (slot+1)*slotSize]
		w := work{op: p, slot: slot}
		op := opWrite
		if q.written {
			op, w.length, w.last = opSend, noteSize, true
			binary.LittleEndian.PutUint64(stage, uint64(p.At))
			binary.LittleEndian.PutUint64(stage[8:], uint64(p.Size()))
			binary.LittleEndian.PutUint32(stage[16:], p.Note)
		} else {
			w.length = min(p.Size()-q.offset, slotSize-(p.At+q.offset)%8) // pieces end between words
			if p.Kind == fabric.Read {
				op = opRead
			} else {
				copy(stage, p.Data[q.offset:q.offset+w.length])
			}
		}
		at := q.target.base + uint64(p.At+q.offset)
		if op != opSend {
			q.offset += w.length
			q.written = q.offset == p.Size()
			w.last = q.written && (p.Kind == fabric.Read || !p.Notify)
		}
		id := uint64(q.id)<<32 | uint64(q.posted)
		if q.pair.send(op, id, slot*slotSize, w.length, at, q.target.key) != nil {
			q.lose()
			return false
		}
		q.posted++
		q.flying = append(q.flying, w)
		if w.last {
			q.todo, q.offset, q.written = q.todo[1:], 0, false
			return true
		}
	}
	return false
}

// finished handles the result of the oldest work request.
func (q *queue) finished(d *done) {
	if len(q.flying) == 0 {
		return // the work request is older than a reset of the pair
	}
	w := q.flying[0]
	q.flying = q.flying[1:]
	switch {
	case q.deaf || w.op == q.ended:
	case d.status == succeeded:
		if w.op.Kind == fabric.Read {
			q.data = append(q.data, q.stage.bytes[w.slot*slotSize:w.slot*slotSize+w.length]...)
		}
		if w.last {
			q.answered(fabric.OK)
		}
	case d.status == remoteAccessError || d.status == remoteRefusal || d.status == remoteFailure:
		q.refused(w.op, fabric.Denied)
	case d.status == flushed && q.state == broken:
		q.refused(w.op, fabric.Flushed)
	default:
		q.lose()
	}
	if len(q.flying) == 0 {
		q.deaf, q.ended = false, nil
	}
}

func (q *queue) answered(status fabric.Status) {
	data := q.data
	if q.data = nil; data == nil {
		data = []byte{}
	}
	q.ops.Answered(remote.Answer{Status: status}, data)
}

// refused completes a refused operation. Other work requests of the operation may still have no result.
func (q *queue) refused(p *remote.Pending, status fabric.Status) {
	q.state, q.data, q.ended = broken, nil, p
	if len(q.todo) > 0 && q.todo[0] == p {
		q.todo, q.offset, q.written = q.todo[1:], 0, false
	}
	q.ops.Answered(remote.Answer{Status: status}, nil)
}

// lose completes all operations as lost, and breaks the queue.
func (q *queue) lose() {
	if q.state == up || q.state == broken && len(q.flying) > 0 {
		_ = q.pair.fail() // fails only if the pair is in the error state already
	}
	if q.state != opening {
		q.state = broken
	}
	q.deaf = len(q.flying) > 0
	q.todo, q.offset, q.written, q.data = nil, 0, false, nil
	q.ops.Lose()
}

// open starts the set-up of the queue pair for p. No work request may be under way.
func (q *queue) open(p *remote.Pending) {
	e := q.to.endpoint
	if e.closed {
		q.lose()
		return
	}
	q.state, q.asked = opening, p
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		answer, line, err := q.connect()
		e.mu.Lock()
		err = q.opened(answer, line, err)
		e.mu.Unlock()
		if e.ctx.Err() == nil {
			e.cfg.Report(q.to.peer, err)
		}
	}()
}

// connect creates the pair if there is none, and connects it.
func (q *queue) connect() (reply, *line, error) {
	if err := q.prepare(); err != nil {
		return reply{}, nil, err
	}
	own := q.pair.address(rand.Uint32N(1 << 24))
	answer, line, err := q.to.call(request{region: q.region, from: own})
	if err != nil || answer.status == absent {
		return answer, line, err
	}
	if answer.status != opened || answer.size > fabric.MaxRegion {
		return answer, line, errors.New("verbs: the peer makes no queue pair: its log may say why")
	}
	if err := q.pair.init(0); err != nil {
		return answer, line, err
	}
	return answer, line, q.pair.ready(&own, &answer.to)
}

func (q *queue) prepare() (err error) {
	d := q.to.endpoint.device
	if q.stage == nil {
		if q.stage, err = d.register(slots*slotSize, false, nil); err != nil {
			q.stage = nil
			return err
		}
	}
	if q.pair == nil {
		q.pair, err = d.newPair(q.stage, slots, 1)
		return err
	}
	return q.pair.reset()
}

// opened handles the result of connect. It returns the reason if the set-up has failed.
func (q *queue) opened(answer reply, line *line, err error) error {
	q.state = up
	if err == nil {
		select {
		case <-line.ended:
			err = errEnded // outgoing.lose has already run, and has skipped this queue in state opening
		default:
		}
	}
	if err != nil || q.to.endpoint.closed {
		q.state = broken
		q.lose()
		return err
	}
	q.target, q.line = answer, line
	if len(q.todo) > 0 && q.todo[0].Kind == fabric.Reset {
		q.finish(remote.Answer{Status: fabric.OK, Incarnation: answer.incarnation})
	}
	q.push()
	return nil
}

// lose loses the queues that a connection has set up: all their operations are completed as lost.
func (o *outgoing) lose(l *line) {
	e := o.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range o.queues {
		if q.line == l && q.state != opening {
			q.line = nil
			q.lose()
		}
	}
}

func (q *queue) close() {
	if q.pair != nil {
		q.pair.close()
	}
	if q.stage != nil {
		q.stage.close()
		q.stage.unmap()
	}
}
