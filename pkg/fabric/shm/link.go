package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// The bits of a side's wake word. A side sets them before it sleeps.
const (
	wakeForBytes = 1 << iota // the peer must send a bell after it has published bytes
	wakeForRoom              // the peer must send a bell after it has released bytes
	wakeForNews              // the peer must send a bell after it has published an answer that may not wait
)

// carrier moves the bytes of a link between its rings and the peer.
type carrier interface {
	// bell reports that bytes were published or released for which a bit of the wake word was set.
	bell() error
	// wait returns after a bell of the peer, at the read deadline of the connection, or when it has ended.
	wait() error
	// release ends the use of the rings.
	release()
}

// link is one side of a connection. The endpoint's lock guards it.
type link struct {
	carrier
	conn  net.Conn
	in    ring.Consumer
	out   ring.Producer
	own   *atomic.Uint64 // wake word of this side
	other *atomic.Uint64 // wake word of the peer
	dead  bool
	again bool // settle has stopped after rounds: the goroutine of the link must call it again
	// wantsRoom reports that bytes wait for room in out.
	wantsRoom bool
	// patient reports that answers about the success of writes may wait (Config.Patience).
	patient bool
	// work moves bytes between the rings and the endpoint. It reports whether it has moved any. An error ends
	// the connection.
	work func() (bool, error)
}

func initiatorLink(conn *net.UnixConn, s *segment) *link {
	return &link{
		carrier: &socket{conn, s}, conn: conn, own: s.Word(initiatorWord), other: s.Word(targetWord),
		out: ring.NewProducer(s.requests(), s.Word(requestHead), s.Word(requestTail)),
		in:  ring.NewConsumer(s.answers(), s.Word(answerHead), s.Word(answerTail)),
	}
}

func targetLink(conn *net.UnixConn, s *segment) *link {
	return &link{
		carrier: &socket{conn, s}, conn: conn, own: s.Word(targetWord), other: s.Word(initiatorWord),
		out: ring.NewProducer(s.answers(), s.Word(answerHead), s.Word(answerTail)),
		in:  ring.NewConsumer(s.requests(), s.Word(requestHead), s.Word(requestTail)),
	}
}

// rounds is the maximum number of calls of work in one call of settle, because settle holds the lock.
const rounds = 8

// settle moves bytes until none are left. If asleep is set, it then sets the wake word and calls work again:
// this moves the bytes that the peer published before the peer could see the word. For later bytes the peer
// sends a bell.
func (l *link) settle(asleep bool) error {
	for range rounds {
		moved, err := l.work()
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		want := uint64(0)
		if asleep {
			want = wakeForBytes
			if l.patient {
				want = wakeForNews
			}
			if l.wantsRoom {
				want |= wakeForRoom
			}
		}
		if l.own.Load() == want {
			return nil
		}
		l.own.Store(want)
		if !asleep {
			return nil
		}
	}
	l.again = true
	return l.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the goroutine of the link
}

// ring sends a bell if one of the bits is set in the peer's wake word.
func (l *link) ring(bits uint64) error {
	if l.other.Load()&bits == 0 || l.other.Swap(0)&bits == 0 {
		return nil
	}
	return l.bell()
}

// close ends the connection and the use of its rings. Nothing may use them afterwards.
func (l *link) close() {
	if l.dead {
		return
	}
	l.dead = true
	l.release() // the operations are reported as lost
}

// pause releases the lock until a bell arrives, the deadline passes, or the connection ends. It returns an
// error only if the connection has ended.
func (l *link) pause(mu *sync.Mutex, deadline time.Time) error {
	if l.again {
		l.again, deadline = false, time.Unix(1, 0)
	}
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	mu.Unlock()
	defer mu.Lock()
	err := l.wait()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// socket is the carrier of a segment: the peer maps the rings, too, and a byte on the socket is a bell.
type socket struct {
	conn *net.UnixConn
	seg  *segment
}

func (s *socket) bell() error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Write(int(fd), []byte{0}); err != nil && !errors.Is(err, unix.EAGAIN) {
			failed = err // a full socket is no error: it has bells that the peer will read
		}
		return true
	})
	return errors.Join(err, failed)
}

func (s *socket) wait() error {
	var bells [64]byte
	_, err := s.conn.Read(bells[:])
	return err
}

func (s *socket) release() {
	_ = s.conn.Close()
	s.seg.Unmap()
}

// The first message of the initiator carries the file of the segment. The target answers with one byte.
const (
	magic       = "gfs-shm\x01"
	messageSize = len(magic) + 8
	ready       = 'y'
)

// offer creates a segment, passes it to the target, and waits for the target's answer.
func offer(conn *net.UnixConn, ring int, deadline time.Time) (*segment, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	s, file, err := createSegment(ring)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	message := binary.LittleEndian.AppendUint64([]byte(magic), uint64(ring))
	if _, _, err := conn.WriteMsgUnix(message, unix.UnixRights(int(file.Fd())), nil); err != nil {
		s.Unmap()
		return nil, fmt.Errorf("shm: offer a segment: %w", err)
	}
	var answer [1]byte
	if _, err := conn.Read(answer[:]); err != nil || answer[0] != ready {
		s.Unmap()
		return nil, fmt.Errorf("shm: the peer takes no segment (answer %d, %v): its log says why", answer[0], err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		s.Unmap()
		return nil, err
	}
	return s, nil
}

// accept receives and maps the segment of an initiator. The initiator then waits for admit.
func accept(conn *net.UnixConn, deadline time.Time) (*segment, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	file, ring, err := receive(conn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	return openSegment(file, ring)
}

// admit informs the initiator that it may use the segment.
func admit(conn *net.UnixConn) error {
	_, err := conn.Write([]byte{ready})
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

// receive reads the first message. It returns the file of the segment and the size of each ring. If the
// message is invalid, receive closes all its files.
func receive(conn *net.UnixConn) (*os.File, int, error) {
	message, control := make([]byte, messageSize), make([]byte, unix.CmsgSpace(4*4))
	n, controlSize, _, _, err := conn.ReadMsgUnix(message, control)
	if err != nil {
		return nil, 0, fmt.Errorf("shm: wait for a segment: %w", err)
	}
	var files []*os.File
	parts, err := unix.ParseSocketControlMessage(control[:controlSize])
	for i := range parts {
		fds, rightsErr := unix.ParseUnixRights(&parts[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "globalfs-shm"))
		}
		err = errors.Join(err, rightsErr)
	}
	ring := uint64(0)
	if n == messageSize {
		ring = binary.LittleEndian.Uint64(message[len(magic):])
	}
	if err == nil && len(files) == 1 && n == messageSize && string(message[:len(magic)]) == magic && validRing(ring) {
		return files[0], int(ring), nil
	}
	for _, f := range files {
		_ = f.Close() // the message is refused
	}
	return nil, 0, fmt.Errorf("shm: the first message has %d bytes, %d files, and asks for rings of %d bytes (%v): the peer is broken or of another version",
		n, len(files), ring, err)
}

// checkUser verifies that the peer of the socket runs as the same user. A process of another user could relay
// the TLS handshake, and then receive the segment in place of the peer.
func (c *Config) checkUser(conn *net.UnixConn) error {
	if c.Introduced {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("shm: the user of the peer: %w", failed)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("shm: the peer runs as user %d, this process as user %d: run both as one user, or use provider soft", peer.Uid, os.Geteuid())
	}
	return nil
}
