package shm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// A stream is the carrier of a link to a peer with which this process shares no memory, such as one on
// another host. The bytes are those of provider soft. The rings are private memory: a goroutine (pump) writes
// the bytes of one ring to the connection, and the goroutine of the link (wait) fills the other one.
type stream struct {
	conn    net.Conn
	timeout time.Duration
	out     ring.Consumer  // bytes for the peer
	in      ring.Producer  // bytes of the peer
	word    *atomic.Uint64 // the wake word of the carrier
	bytes   chan struct{}  // rings pump
	room    chan struct{}  // rings wait
	over    chan struct{}  // closed by release
	buffer  []byte
}

const (
	// streamRing bounds the rings of streams, which use memory of each process.
	streamRing = 256 << 10
	// streamPiece is the maximum size of one read or write of the connection.
	streamPiece = 64 << 10
)

// streamLink makes the link of a stream. move moves the bytes of the link; its caller holds the lock.
func (e *Endpoint) streamLink(conn net.Conn, move func()) (*link, error) {
	if !e.start() {
		return nil, errClosed
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		e.running.Done()
		return nil, err
	}
	size := min(e.cfg.Ring, streamRing)
	toPeer, fromPeer := make([]byte, size), make([]byte, size)
	words := make([]atomic.Uint64, 6)
	s := &stream{
		conn: conn, timeout: e.cfg.Timeout, word: &words[4], buffer: make([]byte, streamPiece),
		out: ring.NewConsumer(toPeer, &words[0], &words[1]), in: ring.NewProducer(fromPeer, &words[2], &words[3]),
		bytes: make(chan struct{}, 1), room: make(chan struct{}, 1), over: make(chan struct{}),
	}
	l := &link{
		carrier: s, conn: conn, other: s.word, own: &words[5],
		out: ring.NewProducer(toPeer, &words[0], &words[1]), in: ring.NewConsumer(fromPeer, &words[2], &words[3]),
	}
	go func() {
		defer e.running.Done()
		s.pump(func() {
			if l.own.Load()&wakeForRoom == 0 {
				return
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			move()
			e.tell()
		})
	}()
	return l, nil
}

// bell implements carrier.
func (s *stream) bell() error {
	for _, to := range []chan struct{}{s.bytes, s.room} {
		select {
		case to <- struct{}{}:
		default:
		}
	}
	return nil
}

// wait implements carrier.
func (s *stream) wait() error {
	room, err := s.in.Room()
	if err == nil && room == 0 {
		s.word.Or(wakeForRoom)
		room, err = s.in.Room()
	}
	if err != nil {
		return err
	}
	if room == 0 {
		return s.awaitRoom()
	}
	n, err := s.conn.Read(s.buffer[:min(room, len(s.buffer))])
	s.in.Put(s.buffer[:n])
	s.in.Publish()
	return err
}

// roomWait bounds a wait for room: until then, a peer whose operations wait may have made no progress.
const roomWait = 50 * time.Millisecond

// awaitRoom waits until bytes were released. The operations of the peer wait for Poll, or for room in the
// other ring.
func (s *stream) awaitRoom() error {
	timer := time.NewTimer(roomWait)
	defer timer.Stop()
	select {
	case <-s.room:
	case <-timer.C:
	case <-s.over:
		return net.ErrClosed
	}
	return nil
}

// pump writes bytes to the connection until it ends. After each write it calls released.
func (s *stream) pump(released func()) {
	for {
		there, err := s.out.Available()
		if err == nil && there == 0 {
			s.word.Or(wakeForBytes)
			there, err = s.out.Available()
		}
		if err == nil && there == 0 {
			select {
			case <-s.bytes:
				continue
			case <-s.over:
				return
			}
		}
		if err == nil {
			err = s.write(min(there, streamPiece))
		}
		if err != nil {
			_ = s.conn.Close() // wait gets an error
			return
		}
		released()
	}
}

// write writes the next n bytes to the connection.
func (s *stream) write(n int) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	first, second := s.out.Next(n)
	_, err := s.conn.Write(first)
	if err == nil && len(second) > 0 {
		_, err = s.conn.Write(second)
	}
	s.out.Release()
	return err
}

// release implements carrier. It does not close the connection, because that can wait for the peer: the
// goroutine of the link does it.
func (s *stream) release() {
	close(s.over)
	_ = s.conn.SetDeadline(time.Unix(1, 0)) // ends all reads and writes; fails only after the end
}

// streamAdmission is the first byte of the target on a stream, as of provider soft.
const streamAdmission = 'a'

// admitStream informs the initiator of a stream that it may begin.
func admitStream(conn net.Conn, deadline time.Time) error {
	if err := conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := conn.Write([]byte{streamAdmission})
	return err
}

// awaitAdmission waits until the target has ended the earlier connections of this node (fabric Q5).
func awaitAdmission(conn net.Conn, deadline time.Time) error {
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return errors.Join(errors.New("shm: the target does not admit the stream"), err)
	}
	if b[0] != streamAdmission {
		return fmt.Errorf("shm: the target begins with %d: it is broken or of another version", b[0])
	}
	return nil
}
