package shm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// incoming is a connection that a peer has opened. The endpoint's lock guards all fields.
type incoming struct {
	*link
	endpoint  *Endpoint
	peer      fabric.NodeID
	execution *remote.Execution
	writing   bool // a write is being executed: its header was read
	notify    bool
	left      int // bytes of this write that were not read
	fixed     [remote.AnswerSize]byte
	answers   []byte // the part of fixed that waits for room
	unsent    []byte // the data of a read that waits for room; it follows answers
	urgent    bool   // an answer was not published that may not wait (Config.Patience)
	failure   error  // the error with which look has closed the connection
}

// maxLanded is the maximum number of notifications that wait for Poll. Beyond it, operations of peers wait.
const maxLanded = 1 << 16

// Serve executes the operations of a peer until its connection ends, and closes the connection. The caller
// has authenticated the peer. Serve first closes an earlier connection of the same peer. As with Config.Dial,
// a *net.UnixConn is for shared memory, and any other connection is a stream.
func (e *Endpoint) Serve(peer fabric.NodeID, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	if !e.start() {
		return errClosed
	}
	defer e.running.Done()
	stop := context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	defer stop()
	in := &incoming{endpoint: e, peer: peer, execution: remote.NewExecution(peer, &e.regions)}
	if err := in.begin(conn); err != nil {
		return fmt.Errorf("shm: node %d: %w", peer, err)
	}
	in.work = in.execute
	e.mu.Lock()
	defer e.mu.Unlock()
	defer in.leave()
	if e.closed {
		return errClosed
	}
	if old := e.incoming[peer]; old != nil {
		old.close()
	}
	e.incoming[peer] = in
	err := in.admit() // only after the earlier connection was closed: fabric Q5
	if err == nil {
		err = in.run()
		e.tell()
	}
	if err == nil || in.dead && in.failure == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("shm: node %d: %w", peer, err)
}

// begin makes the link of a new connection. The initiator then waits for admit.
func (in *incoming) begin(conn net.Conn) (err error) {
	e := in.endpoint
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		in.link, err = e.streamLink(conn, in.move)
		return err
	}
	if err := e.cfg.checkUser(unix); err != nil {
		return err
	}
	s, err := accept(unix, time.Now().Add(e.cfg.Timeout))
	if err == nil {
		in.link = targetLink(unix, s)
	}
	return err
}

// admit informs the initiator that it may begin.
func (in *incoming) admit() error {
	if unix, ok := in.conn.(*net.UnixConn); ok {
		return admit(unix)
	}
	return admitStream(in.conn, time.Now().Add(in.endpoint.cfg.Timeout))
}

// move moves the bytes of the connection. The caller holds the lock.
func (in *incoming) move() {
	if in.dead {
		return
	}
	if err := in.settle(in.endpoint.asleep); err != nil {
		in.failure = err
		in.close() // ends the goroutine of the connection
	}
}

// run waits for bells until the connection ends.
func (in *incoming) run() error {
	for {
		if err := in.settle(in.endpoint.asleep); err != nil {
			return err
		}
		in.endpoint.tell()
		if in.dead { // meanwhile
			return in.failure
		}
		err := in.pause(&in.endpoint.mu, time.Time{})
		if err != nil || in.dead {
			return errors.Join(in.failure, err)
		}
	}
}

func (in *incoming) leave() {
	in.close()
	if in.endpoint.incoming[in.peer] == in {
		delete(in.endpoint.incoming, in.peer)
	}
}

// execute implements link.work for the target.
func (in *incoming) execute() (bool, error) {
	start, put := in.in.At(), in.out.At()
	for len(in.endpoint.events.Landed) < maxLanded {
		if full, err := in.send(); err != nil || full {
			in.wantsRoom, in.urgent = full, true
			return in.done(start, put, err)
		}
		in.wantsRoom = false
		there, err := in.in.Available()
		if err != nil {
			return false, err
		}
		more, err := in.step(there)
		if err != nil || !more {
			return in.done(start, put, err)
		}
	}
	return in.done(start, put, nil)
}

// done releases the bytes that execute has read, and publishes the answers that it has written.
func (in *incoming) done(start, put uint64, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	bits := uint64(0)
	if in.in.At() != start {
		in.in.Release()
		bits |= wakeForRoom
	}
	if in.out.At() != put {
		in.out.Publish()
		if bits |= wakeForBytes; in.urgent {
			bits |= wakeForNews
			in.urgent = in.wantsRoom
		}
	}
	if bits == 0 {
		return false, nil
	}
	return true, in.ring(bits)
}

// step executes the next operation, or the next piece of a write. there is the number of bytes in the ring.
// It returns false if the ring has too few bytes.
func (in *incoming) step(there int) (bool, error) {
	if in.writing {
		n := min(there, in.left)
		if n == 0 {
			return false, nil
		}
		first, second := in.in.Next(n)
		in.execution.Piece(first)
		if len(second) > 0 {
			in.execution.Piece(second)
		}
		if in.left -= n; in.left > 0 {
			return true, nil
		}
		return true, in.endWrite()
	}
	if there < remote.HeaderSize {
		return false, nil
	}
	var header [remote.HeaderSize]byte
	in.in.Take(header[:])
	op, length, err := remote.Decode(&header)
	if err != nil {
		return false, err
	}
	switch op.Kind {
	case fabric.Reset:
		in.execution.Reset(op.Region)
		in.urgent = true
		in.answer(fabric.OK, nil)
	case fabric.Read:
		status, data, err := in.execution.Read(&op, length)
		if err != nil {
			return false, err
		}
		in.urgent = true
		in.answer(status, data)
	default:
		in.execution.Begin(&op, length)
		if in.writing, in.notify, in.left = true, op.Notify, length; length == 0 {
			return true, in.endWrite()
		}
	}
	return true, nil
}

func (in *incoming) endWrite() error {
	in.writing = false
	status, landed, err := in.execution.End()
	if err != nil {
		return err
	}
	if status == fabric.OK {
		in.endpoint.written(in.notify, landed)
	}
	in.urgent = in.urgent || status != fabric.OK
	in.answer(status, nil)
	return nil
}

func (in *incoming) answer(status fabric.Status, data []byte) {
	b := remote.Answer{Status: status, Incarnation: in.endpoint.incarnation, Length: len(data)}.Encode()
	in.fixed, in.unsent = b, data
	in.answers = in.fixed[:]
}

// send copies the current answer into the ring. full reports that a part of the answer waits for room.
func (in *incoming) send() (full bool, err error) {
	if len(in.answers)+len(in.unsent) == 0 {
		return false, nil
	}
	room, err := in.out.Room()
	if err != nil {
		return false, err
	}
	for _, part := range []*[]byte{&in.answers, &in.unsent} {
		n := min(room, len(*part))
		in.out.Put((*part)[:n])
		*part = (*part)[n:]
		room -= n
	}
	return len(in.answers)+len(in.unsent) > 0, nil
}
