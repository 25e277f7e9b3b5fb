package mount

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How a mount goes from one process to the next: over a socket of packets, each a word.
//
//	successor      hello    with the version of this protocol
//	predecessor    state    with /dev/fuse and a file in memory as descriptors; or no, and why not. It has stopped to serve.
//	successor      ready    it can serve
//	predecessor    go       from here on it does not serve, unless the successor ends
//	successor      serving  the predecessor leaves
//
// Until "go", a connection that is closed or a minute without a word give the mount back to the predecessor; from there on only the end
// of the connection does, which is that of the successor's process.
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
	answerTime  = 30 * time.Second // for requests that are under way
	wordTime    = time.Minute      // for the next word
	maxWord     = 4 << 10          // bytes
	maxHanded   = 256 << 20        // bytes of state
	socketsRoot = "/run/globalfs"
)

// ErrNobody says that no process offers a mount.
var ErrNobody = errors.New("no process that would hand over this mount runs")

// link is one end of a connection between predecessor and successor.
type link struct {
	*net.UnixConn
}

// say sends a word, with descriptors.
func (l *link) say(word string, fds ...int) error {
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

// hear gives the next word and, with so many descriptors as are expected, these.
func (l *link) hear(patience time.Duration, count int) (word string, fds []int, err error) {
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
		fds, err = descriptorsIn(control[:held], count)
	}
	return word, fds, err
}

// expect hears one certain word.
func (l *link) expect(want string, patience time.Duration) error {
	word, _, err := l.hear(patience, 0)
	if err == nil && word != want {
		err = fmt.Errorf("the other process says %q instead of %q", word, want)
	}
	return err
}

// commit asks the predecessor to let go for good.
func (l *link) commit() error {
	if err := l.say(wordReady); err != nil {
		return err
	}
	return l.expect(wordGo, wordTime)
}

// confirm says that the mount is served, and ends the connection.
func (l *link) confirm() error { return errors.Join(l.say(wordServing), l.Close()) }

// HandoverPath gives the socket by which the mount at dir is handed over. Its directory, which only this user can enter, is made.
func HandoverPath(dir string) (string, error) {
	place := socketsRoot
	if os.Geteuid() != 0 {
		base := os.Getenv("XDG_RUNTIME_DIR")
		if base == "" {
			return "", errors.New("XDG_RUNTIME_DIR is not set: there is no directory for the socket by which a mount is handed over")
		}
		place = filepath.Join(base, "globalfs")
	}
	if err := os.MkdirAll(place, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(place)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s: must be a directory of this user that nobody else can enter: run 'chmod 700 %s', or remove it", place, place)
	}
	path, err := pathOf(dir)
	if err != nil {
		return "", err
	}
	name := sha256.Sum256([]byte(path)) // a path may be longer than a socket's
	return filepath.Join(place, fmt.Sprintf("mount-%x.sock", name[:12])), nil
}

// pathOf gives the absolute path of a mount point without links. The mount itself is not asked: it may just have nobody who answers.
func pathOf(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, ok := mountedAt(path); ok {
		return path, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if path = filepath.Join(parent, filepath.Base(path)); path == parent {
		return path, nil
	}
	if _, ok := mountedAt(path); ok {
		return path, nil
	}
	whole, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return whole, err
}

// OfferHandover lets a successor take the mount through a socket, as long as the mount is served here. What is there of a dead or
// former one is replaced.
func (m *Mount) OfferHandover(socket string) error {
	// Who connects finds the old socket or the new one, never none.
	fresh := fmt.Sprintf("%s.%d", socket, os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: fresh, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("handover: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Rename(fresh, socket); err != nil {
		return errors.Join(err, listener.Close(), os.Remove(fresh))
	}
	own, err := os.Lstat(socket)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	m.background.Go(func() { m.offer(listener) })
	m.background.Go(func() {
		<-m.done
		if now, err := os.Lstat(socket); err == nil && os.SameFile(own, now) && !m.Left() {
			_ = os.Remove(socket) // a successor would see that nobody listens
		}
		_ = listener.Close()
	})
	return nil
}

// offer serves one successor after the other.
func (m *Mount) offer(listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return // closed
		}
		handed := make(chan struct{})
		m.background.Go(func() {
			select {
			case <-m.done: // there is nothing to hand over any more
			case <-handed:
			}
			_ = conn.Close()
		})
		err = m.handTo(&link{conn})
		close(handed)
		select {
		case <-m.done:
			if m.Left() {
				m.logger.Info("another process serves the mount now", "dir", m.dir)
			}
			return
		default:
		}
		if err != nil {
			m.logger.Warn("the mount was not handed over: it is served on", "dir", m.dir, "error", err)
		}
	}
}

// handTo hands the mount to who has connected.
func (m *Mount) handTo(l *link) error {
	if err := l.checkPeer(); err != nil {
		return err
	}
	if err := l.expect(wordHello, wordTime); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	handed, err := m.Handover(ctx)
	if err != nil {
		return errors.Join(err, l.say(wordNo+err.Error()))
	}
	keeper := m.server.keeper.Load()
	begun, err := l.give(handed, keeper.letGo)
	if err != nil {
		err = errors.Join(err, handed.File.Close(), m.TakeBack(begun))
		return errors.Join(err, keeper.holdAgain())
	}
	m.Leave()
	return handed.File.Close()
}

// give gives a mount away; commit is called before it cannot be taken back. If that fails, the successor may have begun to serve it, and
// has ended.
func (l *link) give(handed *Handed, commit func()) (begun bool, err error) {
	memory, err := inMemory(handed.State)
	if err != nil {
		return false, err
	}
	err = errors.Join(l.say(wordState, int(handed.File.Fd()), int(memory.Fd())), memory.Close())
	if err == nil {
		err = l.expect(wordReady, wordTime)
	}
	if err == nil {
		commit()
		err = l.say(wordGo)
	}
	if err != nil {
		return false, err
	}
	return true, l.expect(wordServing, 0)
}

// checkPeer says whether the other process may have the mount.
func (l *link) checkPeer() error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("process %d of user %d asks for a mount of user %d", peer.Pid, peer.Uid, os.Geteuid())
	}
	return nil
}

// RequestHandover asks the process that offers a mount at socket for it: ErrNobody if there is none. The mount stands still until
// Take or Handed.Close.
func RequestHandover(ctx context.Context, socket string) (*Handed, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // never, or not any more
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	case err != nil:
		return nil, fmt.Errorf("handover: %w", err)
	}
	l := &link{conn.(*net.UnixConn)}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	handed, err := l.ask()
	if err != nil {
		return nil, fmt.Errorf("handover: %w", errors.Join(err, l.Close()))
	}
	return handed, nil
}

// ask asks for the mount.
func (l *link) ask() (*Handed, error) {
	if err := l.checkPeer(); err != nil {
		return nil, err
	}
	if err := l.say(wordHello); err != nil {
		return nil, err
	}
	word, fds, err := l.hear(answerTime+wordTime, 2)
	if err != nil {
		return nil, err
	}
	if word != wordState {
		return nil, fmt.Errorf("it is refused: %s", strings.TrimPrefix(word, wordNo))
	}
	handed, err := receive(fds)
	if err == nil {
		handed.link = l
	}
	return handed, err
}

// receive takes over the descriptors of a mount and its state.
func receive(fds []int) (*Handed, error) {
	memory := os.NewFile(uintptr(fds[1]), "state")
	file, err := asFile(fds[0])
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	packed, err := readState(memory)
	if err = errors.Join(err, memory.Close()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Handed{File: file, State: packed}, nil
}

func readState(memory *os.File) ([]byte, error) {
	packed, err := io.ReadAll(io.NewSectionReader(memory, 0, maxHanded+1))
	if err == nil && len(packed) > maxHanded {
		err = fmt.Errorf("the state is longer than %d bytes", maxHanded)
	}
	return packed, err
}

// inMemory makes a file that has no name and is in memory.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("globalfs-state", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "state")
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
