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

// The bits of the words by which each side says that it sleeps.
const (
	wakeForBytes = 1 << iota // ring the bell when bytes were published
	wakeForRoom              // ring the bell when bytes were released
)

// link is one side of a connection: a socket and a segment. The endpoint's lock guards it.
type link struct {
	conn  *net.UnixConn
	seg   *segment
	in    ring.Consumer
	out   ring.Producer
	own   *atomic.Uint64 // wake bits of this side
	other *atomic.Uint64 // wake bits of the peer
	dead  bool
	again bool // the goroutine of the link has to go on
	// wantsRoom: bytes wait for room in out.
	wantsRoom bool
	// work moves bytes, and reports whether it has moved some. An error ends the connection.
	work func() (bool, error)
}

func initiatorLink(conn *net.UnixConn, s *segment) *link {
	return &link{
		conn: conn, seg: s, own: s.Word(initiatorWord), other: s.Word(targetWord),
		out: ring.NewProducer(s.requests(), s.Word(requestHead), s.Word(requestTail)),
		in:  ring.NewConsumer(s.answers(), s.Word(answerHead), s.Word(answerTail)),
	}
}

func targetLink(conn *net.UnixConn, s *segment) *link {
	return &link{
		conn: conn, seg: s, own: s.Word(targetWord), other: s.Word(initiatorWord),
		out: ring.NewProducer(s.answers(), s.Word(answerHead), s.Word(answerTail)),
		in:  ring.NewConsumer(s.requests(), s.Word(requestHead), s.Word(requestTail)),
	}
}

// rounds bounds the work of one caller that holds the lock.
const rounds = 8

// settle moves all bytes that can be moved. If the endpoint sleeps, it asks for the bell and looks again:
// what the peer has published before it could see the word is moved now, and for the rest the bell rings.
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
	return l.conn.SetReadDeadline(time.Unix(1, 0)) // the goroutine of the link goes on
}

// ring wakes the peer if it asks for it.
func (l *link) ring(bits uint64) error {
	if l.other.Load()&bits == 0 || l.other.Swap(0)&bits == 0 {
		return nil
	}
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if _, err := unix.Write(int(fd), []byte{0}); err != nil && !errors.Is(err, unix.EAGAIN) {
			failed = err // a full socket has bells enough
		}
		return true
	})
	return errors.Join(err, failed)
}

// close ends the link: nothing touches the segment afterwards.
func (l *link) close() {
	if l.dead {
		return
	}
	l.dead = true
	_ = l.conn.Close() // lost operations are reported
	l.seg.Unmap()
}

// pause gives the lock away until a bell rings, a deadline passes, or the connection ends.
func (l *link) pause(mu *sync.Mutex, deadline time.Time) error {
	if l.again {
		l.again, deadline = false, time.Unix(1, 0)
	}
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	mu.Unlock()
	defer mu.Lock()
	var bells [64]byte
	_, err := l.conn.Read(bells[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// The first message of the initiator has the segment's file beside it. The target answers with one byte.
const (
	magic       = "gfs-shm\x01"
	messageSize = len(magic) + 8
	ready       = 'y'
)

// offer makes a segment and passes it to the target.
func offer(conn *net.UnixConn, ring int, deadline time.Time) (*segment, error) {
	if err := checkUser(conn); err != nil {
		return nil, err
	}
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
	return s, conn.SetDeadline(time.Time{})
}

// accept takes the segment of an initiator. The initiator waits for admit.
func accept(conn *net.UnixConn, deadline time.Time) (*segment, error) {
	if err := checkUser(conn); err != nil {
		return nil, err
	}
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

// admit lets the initiator use the segment.
func admit(conn *net.UnixConn) error {
	_, err := conn.Write([]byte{ready})
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

// receive takes the first message. All files that come with it are closed, but one.
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

// checkUser compares the users of both processes. A process of another user may sit between the ends of the
// TLS handshake and the segment.
func checkUser(conn *net.UnixConn) error {
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
