//go:build verbs

package verbs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// request is the initiator's request to set up the target's end of a queue pair.
type request struct {
	region fabric.RegionID
	from   address
}

const requestSize = 4 + addressSize

func (r *request) encode() []byte {
	return encodeAddress(binary.LittleEndian.AppendUint32(nil, uint32(r.region)), &r.from)
}

func decodeRequest(b []byte) request {
	return request{region: fabric.RegionID(binary.LittleEndian.Uint32(b)), from: decodeAddress(b[4:])}
}

// reply describes the target's queue pair and region.
type reply struct {
	status      byte
	incarnation uint64
	to          address
	key         uint32
	base, size  uint64
}

// The statuses of a reply.
const (
	opened = iota // the queue pair is ready
	absent        // there is no such region
	unable        // the target cannot make a queue pair
)

const replySize = 1 + 8 + addressSize + 4 + 8 + 8

func (r *reply) encode() []byte {
	b := binary.LittleEndian.AppendUint64([]byte{r.status}, r.incarnation)
	b = encodeAddress(b, &r.to)
	b = binary.LittleEndian.AppendUint32(b, r.key)
	b = binary.LittleEndian.AppendUint64(b, r.base)
	return binary.LittleEndian.AppendUint64(b, r.size)
}

func decodeReply(b []byte) reply {
	r := reply{status: b[0], incarnation: binary.LittleEndian.Uint64(b[1:]), to: decodeAddress(b[9:])}
	b = b[9+addressSize:]
	r.key, r.base, r.size = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:])
	return r
}

var errEnded = errors.New("verbs: the connection to the peer has ended")

// outgoing has the queues to a peer, and the connection that sets up their queue pairs.
type outgoing struct {
	endpoint *endpoint
	peer     fabric.NodeID
	queues   map[fabric.RegionID]*queue // the endpoint's lock guards it

	calls sync.Mutex // one call at a time
	line  *line      // nil: none; calls guards it
}

// line is one connection for the set-up of queue pairs. A goroutine reads replies until the connection ends.
type line struct {
	conn    net.Conn
	replies chan reply
	ended   chan struct{}
}

// call sends a request and waits for the reply.
func (o *outgoing) call(r request) (reply, *line, error) {
	o.calls.Lock()
	defer o.calls.Unlock()
	timeout := o.endpoint.cfg.Timeout
	l, err := o.connected(timeout)
	if err != nil {
		return reply{}, nil, err
	}
	answer, err := l.call(r, timeout)
	if err != nil {
		_ = l.conn.Close() // err is reported
		o.line = nil
	}
	return answer, l, err
}

func (l *line) call(r request, timeout time.Duration) (reply, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	if err := l.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return reply{}, err
	}
	if _, err := l.conn.Write(r.encode()); err != nil {
		return reply{}, err
	}
	select {
	case answer := <-l.replies:
		return answer, nil
	case <-l.ended:
		return reply{}, errEnded
	case <-timer.C:
		return reply{}, context.DeadlineExceeded
	}
}

// connected returns the connection. It opens one if there is none.
func (o *outgoing) connected(timeout time.Duration) (*line, error) {
	if o.line != nil {
		select {
		case <-o.line.ended:
		default:
			return o.line, nil
		}
	}
	e := o.endpoint
	ctx, cancel := context.WithTimeout(e.ctx, timeout)
	defer cancel()
	conn, err := e.dial(ctx, o.peer)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, replies: make(chan reply), ended: make(chan struct{})}
	if !e.start() {
		return nil, errors.Join(errClosed, conn.Close())
	}
	o.line = l
	go func() {
		defer e.running.Done()
		stop := context.AfterFunc(e.ctx, func() { _ = conn.Close() })
		defer stop()
		l.take()
		o.lose(l)
	}()
	return l, nil
}

// dial opens a connection to a peer. The connection of the node to itself is a pipe.
func (e *endpoint) dial(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
	if peer != e.cfg.Self {
		return e.cfg.Dial(ctx, peer)
	}
	here, there := net.Pipe()
	go func() { _ = e.Serve(peer, there) }() // Serve adds itself to e.running; it ends with the pipe
	return here, nil
}

// take reads replies until the connection ends. A reply that no call waits for ends the connection.
func (l *line) take() {
	defer close(l.ended)
	defer func() { _ = l.conn.Close() }()
	var b [replySize]byte
	for {
		if _, err := io.ReadFull(l.conn, b[:]); err != nil {
			return
		}
		timer := time.NewTimer(time.Second)
		select {
		case l.replies <- decodeReply(b[:]):
			timer.Stop()
		case <-timer.C:
			return
		}
	}
}

// incoming is a connection that a peer has opened.
type incoming struct {
	peer fabric.NodeID
	conn net.Conn
}

// Serve implements Endpoint.
func (e *endpoint) Serve(peer fabric.NodeID, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	if !e.start() {
		return errClosed
	}
	defer e.running.Done()
	stop := context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	defer stop()
	in := &incoming{peer: peer, conn: conn}
	if err := e.enter(in); err != nil {
		return err
	}
	defer e.leave(in)
	var b [requestSize]byte
	for {
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			if errors.Is(err, io.EOF) || e.ctx.Err() != nil {
				return nil
			}
			return err
		}
		answer, err := e.answer(in, decodeRequest(b[:]))
		if err != nil {
			return fmt.Errorf("verbs: node %d: %w", peer, err)
		}
		if _, err := conn.Write(answer.encode()); err != nil {
			return err
		}
	}
}

// enter replaces the earlier connection of a peer: it closes that connection, and resets its queue pairs.
func (e *endpoint) enter(in *incoming) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.incoming[in.peer]; old != nil {
		_ = old.conn.Close() // it is no longer used
	}
	e.incoming[in.peer] = in
	return e.disconnect(in.peer)
}

func (e *endpoint) leave(in *incoming) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.incoming[in.peer] == in {
		delete(e.incoming, in.peer)
		_ = e.disconnect(in.peer) // the queue pairs are reset before they are used again
	}
}

// disconnect resets the target's ends of a peer's queue pairs. The caller holds the lock.
func (e *endpoint) disconnect(peer fabric.NodeID) (err error) {
	for _, r := range e.regions {
		if s := r.served[peer]; s != nil {
			err = errors.Join(err, s.disconnect())
		}
	}
	return err
}
