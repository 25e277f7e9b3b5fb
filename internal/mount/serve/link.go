package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
)

// Two processes hand a mount over by a socket of packets, each a word:
//
//	successor      hello    with the version of this protocol
//	predecessor    state    with /dev/fuse and a file in memory as descriptors; it has stopped to serve.
//	                        Or no, and the reason
//	successor      ready    it can serve
//	predecessor    go       from here on it does not serve, unless the successor ends
//	successor      serving  the predecessor leaves
//
// Until "go", a closed connection or a minute without a word return the mount to the predecessor. From then
// on only the end of the connection does, which is the end of the successor's process.
const (
	wordHello   = "globalfs handover 1"
	wordState   = "state"
	wordNo      = "no: "
	wordReady   = "ready"
	wordGo      = "go"
	wordServing = "serving"
)

// Bounds of a handover.
const (
	answerTime = 30 * time.Second // time limit for the answers to requests under way
	wordTime   = time.Minute      // time limit for the next word
	maxWord    = 4 << 10          // maximum length of a word in bytes
	maxHanded  = 256 << 20        // maximum size of a state in bytes
)

// link is one end of a connection between predecessor and successor.
type link struct {
	*net.UnixConn
}

// send sends a word, with descriptors.
func (l *link) send(word string, fds ...int) error {
	if err := l.SetWriteDeadline(time.Now().Add(wordTime)); err != nil {
		return err
	}
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := l.WriteMsgUnix([]byte(word), control, nil)
	return err
}

// receive returns the next word. A word with descriptors must have count of them. patience bounds the wait;
// 0: no bound.
func (l *link) receive(patience time.Duration, count int) (word string, fds []int, err error) {
	var deadline time.Time
	if patience > 0 {
		deadline = time.Now().Add(patience)
	}
	if err := l.SetReadDeadline(deadline); err != nil {
		return "", nil, err
	}
	text, control := make([]byte, maxWord), make([]byte, unix.CmsgSpace(4*8))
	n, held, _, _, err := l.ReadMsgUnix(text, control)
	switch {
	case err != nil:
		return "", nil, err
	case n == 0:
		return "", nil, io.ErrUnexpectedEOF
	}
	word = string(text[:n])
	if held > 0 || word == wordState {
		fds, err = mountpoint.Descriptors(control[:held], count)
	}
	return word, fds, err
}

// expect receives the next word, and returns an error if it is not the expected one.
func (l *link) expect(want string, patience time.Duration) error {
	word, _, err := l.receive(patience, 0)
	if err == nil && word != want {
		err = fmt.Errorf("the other process says %q instead of %q", word, want)
	}
	return err
}

// commit makes the predecessor release the mount for good.
func (l *link) commit() error {
	if err := l.send(wordReady); err != nil {
		return err
	}
	return l.expect(wordGo, wordTime)
}

// confirm informs the predecessor that the mount is served, and ends the connection.
func (l *link) confirm() error { return errors.Join(l.send(wordServing), l.Close()) }

// checkPeer verifies that the other process belongs to root or to this user.
func (l *link) checkPeer() error {
	peer, err := l.credentials()
	if err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("process %d of user %d asks for a mount of user %d", peer.Pid, peer.Uid, os.Geteuid())
	}
	return nil
}

// credentials returns the credentials of the other process.
func (l *link) credentials() (peer *unix.Ucred, err error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}

// peer returns the process id of the other process; 0: it is not known.
func (l *link) peer() int {
	peer, err := l.credentials()
	if err != nil {
		return 0
	}
	return int(peer.Pid)
}

// linkPair makes a connection to a process that is to be started.
func linkPair() (own *link, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "holder")
	own, err = linkOf(os.NewFile(uintptr(pair[0]), "daemon"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return own, theirs, nil
}

// linkOf takes over one end of a connection.
func linkOf(f *os.File) (*link, error) {
	conn, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%v is not a connection between processes", conn.LocalAddr()), conn.Close())
	}
	return &link{unixConn}, nil
}
