package shmconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

// seldom is the number of wake-ups of a waiting side between two reads of its bells. A socket has room for
// more than 200 bytes that were sent one by one, and there is at most one bell for each wake-up.
const seldom = 32

// socketBell is one end of a pair of Unix sockets.
type socketBell struct {
	*net.UnixConn
	raw   syscall.RawConn
	every int // wake-ups between two reads
	looks int // wake-ups since the last read; used only by wait, which one goroutine calls
}

func newSocketBell(conn *net.UnixConn, every int) (*socketBell, error) {
	raw, err := conn.SyscallConn()
	return &socketBell{UnixConn: conn, raw: raw, every: every}, err
}

var oneBell = []byte{0}

func (s *socketBell) ring() {
	_ = s.raw.Control(func(fd uintptr) { // fails only after Close
		// An error is the end of the peer, which wait reports, or a socket full of bells.
		_ = unix.Send(int(fd), oneBell, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

func (s *socketBell) wait(ready func() bool) error {
	var ended bool
	err := s.raw.Read(func(fd uintptr) bool {
		if s.looks++; s.looks%s.every == 0 {
			if ended = drain(int(fd)); ended {
				return true
			}
		}
		return ready()
	})
	switch {
	case ended:
		return io.EOF
	case errors.Is(err, net.ErrClosed):
		return net.ErrClosed
	}
	return err
}

// mostBells is the maximum number of bells that drain reads: a correct peer sends one for each wake-up.
const mostBells = 4 << 10

// drain reads the bells that have arrived. It reports whether the connection has ended: the peer has closed
// its socket, or it floods this side with bells.
func drain(fd int) (ended bool) {
	var bells [256]byte
	for read := 0; ; {
		n, _, err := unix.Recvfrom(fd, bells[:], unix.MSG_DONTWAIT)
		if read += max(n, 0); read > mostBells {
			return true
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil || n == 0:
			return true
		}
	}
}

// magic begins the only message of the socket before the bells. Another layout of the memory needs another
// magic.
const magic = "globalfs shmconn 1\n"

// Offer creates a connection over a Unix socket. The peer must call Accept. The caller authenticates the peer
// before. After an error the caller closes the socket.
func Offer(conn *net.UnixConn, deadline time.Time) (*Conn, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	m, file, err := ring.Create(memorySize)
	if err != nil {
		return nil, fmt.Errorf("shmconn: %w", err)
	}
	defer func() { _ = file.Close() }() // the mapping stays
	near, far, err := socketPair()
	if err != nil {
		m.Unmap()
		return nil, err
	}
	_, _, err = conn.WriteMsgUnix([]byte(magic), unix.UnixRights(int(file.Fd()), int(far.Fd())), nil)
	_ = far.Close() // the peer has its own descriptor
	if err != nil {
		m.Unmap()
		return nil, errors.Join(fmt.Errorf("shmconn: offer: %w", err), near.Close())
	}
	return connect(conn, near, m, 1)
}

// Accept takes the connection that the peer of a Unix socket offers. After an error the caller closes the
// socket.
func Accept(conn *net.UnixConn, deadline time.Time) (*Conn, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	files, err := receive(conn)
	defer func() {
		for _, f := range files {
			_ = f.Close() // the mapping and the connection have their own descriptors
		}
	}()
	if err != nil {
		return nil, err
	}
	m, err := ring.Open(files[0], memorySize)
	if err != nil {
		return nil, fmt.Errorf("shmconn: %w", err)
	}
	room, err := unixConn(files[1])
	if err != nil {
		m.Unmap()
		return nil, fmt.Errorf("shmconn: the peer's second file is no Unix socket: the peer is broken or of another version: %w", err)
	}
	return connect(conn, room, m, 0)
}

// connect starts a connection over its two sockets. It owns the second one.
func connect(conn, room *net.UnixConn, m ring.Memory, direction int) (*Conn, error) {
	first, err := newSocketBell(conn, seldom)
	second, roomErr := newSocketBell(room, 1)
	if err = errors.Join(err, roomErr, conn.SetDeadline(time.Time{})); err != nil {
		m.Unmap()
		return nil, errors.Join(err, room.Close())
	}
	c := newConn(m, direction, first, second, m.Unmap)
	c.local, c.remote = conn.LocalAddr(), conn.RemoteAddr()
	return c, nil
}

// socketPair makes a pair of sockets: one end for this process, one to pass on.
func socketPair() (near *net.UnixConn, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("shmconn: socketpair: %w", err)
	}
	file := os.NewFile(uintptr(fds[0]), "shmconn")
	near, err = unixConn(file)
	_ = file.Close() // near has its own
	far = os.NewFile(uintptr(fds[1]), "shmconn")
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	return near, far, nil
}

// unixConn returns the Unix socket of a file, which stays open.
func unixConn(file *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if u, ok := c.(*net.UnixConn); ok {
		return u, nil
	}
	return nil, errors.Join(fmt.Errorf("a socket of the network %s", c.LocalAddr().Network()), c.Close())
}

// receive takes the message of Offer with its two files. The caller closes the files, also after an error.
func receive(conn *net.UnixConn) (files []*os.File, err error) {
	message, control := make([]byte, len(magic)+1), make([]byte, unix.CmsgSpace(4*4))
	n, size, _, _, err := conn.ReadMsgUnix(message, control)
	if err != nil {
		return nil, fmt.Errorf("shmconn: wait for the offer: %w", err)
	}
	parts, err := unix.ParseSocketControlMessage(control[:size])
	for i := range parts {
		fds, rightsErr := unix.ParseUnixRights(&parts[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shmconn"))
		}
		err = errors.Join(err, rightsErr)
	}
	if err != nil || string(message[:n]) != magic || len(files) != 2 {
		return files, fmt.Errorf("shmconn: the offer has %d bytes and %d files (%v): the peer is broken or of another version", n, len(files), err)
	}
	return files, nil
}

// nobody is the user that the kernel shows for a user without a number in this user namespace.
const nobody = 65534

// User returns the user of the peer of a Unix socket: of the process that has called connect or listen.
func User(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("shmconn: the user of the peer: %w", err)
	}
	if peer.Uid == nobody {
		return 0, errors.New("shmconn: the user of the peer is not known: it is of another user namespace")
	}
	return peer.Uid, nil
}
