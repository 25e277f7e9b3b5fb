package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LogStatus is the status of a log holder.
type LogStatus struct {
	PID     int       `json:"pid"`
	Ends    bool      `json:"ends"`    // no program uses the mount any more
	Changes int       `json:"changes"` // number of changes that the log holder orders
	Since   time.Time `json:"since"`   // when it has begun to order changes
}

// statusSocket sends the status of a log holder to the processes that have connected to its socket.
type statusSocket struct {
	listener *net.UnixListener
	path     string
	running  sync.WaitGroup

	mu    sync.Mutex
	now   LogStatus       // GUARDED_BY mu
	peers []*net.UnixConn // GUARDED_BY mu
	ended bool            // GUARDED_BY mu
}

// maxPeers is the maximum number of processes that wait for a log holder.
const maxPeers = 64

// listen creates the socket for the mount point, and begins to accept connections.
func (n *statusSocket) listen(dir string) error {
	place, err := logPlace(dir)
	if err != nil {
		return err
	}
	n.path = fmt.Sprintf("%s%d.sock", place, os.Getpid())
	fresh := n.path + ".new" // a process that finds the socket can connect to it
	_ = os.Remove(fresh)
	n.listener, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: fresh, Net: "unixpacket"})
	if err != nil {
		return err
	}
	n.listener.SetUnlinkOnClose(false)
	if err := os.Rename(fresh, n.path); err != nil {
		return errors.Join(err, n.listener.Close(), os.Remove(fresh))
	}
	n.running.Go(n.accept)
	return nil
}

func (n *statusSocket) accept() {
	for {
		conn, err := n.listener.AcceptUnix()
		if err != nil {
			return // closed
		}
		n.mu.Lock()
		n.peers = slices.DeleteFunc(n.peers, hasLeft)
		if (&link{conn}).checkPeer() != nil || n.ended || len(n.peers) == maxPeers || (&link{conn}).sendStatus(&n.now) != nil {
			_ = conn.Close()
		} else {
			n.peers = append(n.peers, conn)
		}
		n.mu.Unlock()
	}
}

// hasLeft reports whether a process has ended its connection, and then ends it here, too.
func hasLeft(conn *net.UnixConn) (left bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		left = n <= 0 && !errors.Is(err, unix.EAGAIN)
	})
	if left {
		_ = conn.Close()
	}
	return left
}

func (l *link) sendStatus(s *LogStatus) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return l.send(string(text))
}

// update changes the status, and sends it to all connected processes.
func (n *statusSocket) update(change func(*LogStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.now)
	for _, conn := range n.peers {
		_ = (&link{conn}).sendStatus(&n.now) // fails only if the process has ended
	}
}

func (n *statusSocket) close() {
	if n.listener == nil {
		return
	}
	_ = os.Remove(n.path)
	_ = n.listener.Close()
	n.running.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	for _, conn := range n.peers {
		_ = conn.Close()
	}
}

// logGrace is the time in which a log holder notices that the mount has ended.
const logGrace = time.Second

// AwaitLogs waits until no log holder orders changes of an earlier mount at dir, and no earlier mount there
// is about to end. It calls each with the status of each log holder for which it waits.
func AwaitLogs(ctx context.Context, dir string, each func(LogStatus)) error {
	for _, socket := range logSockets(dir) {
		if err := awaitLog(ctx, socket, each); err != nil {
			return err
		}
	}
	return nil
}

func awaitLog(ctx context.Context, socket string, each func(LogStatus)) error {
	l, err := connectLog(ctx, socket)
	if l == nil {
		return err
	}
	defer func() { _ = l.Close() }()
	pid := l.peer()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for patience := time.Duration(0); ; {
		s, err := l.status(patience)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("process %d goes on with that: %w", pid, ctx.Err())
		case err != nil: // the log holder has ended, or its mount was detached and is in use
			return nil
		case s.Ends:
			patience = 0
			each(s)
		default:
			patience = logGrace
		}
	}
}

// connectLog connects to a log holder; nil: the log holder has ended.
func connectLog(ctx context.Context, socket string) (*link, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", socket)
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(socket) // of a process that was killed
	}
	if err != nil {
		return nil, ctx.Err()
	}
	l := &link{conn.(*net.UnixConn)}
	if l.checkPeer() != nil {
		return nil, l.Close()
	}
	return l, nil
}

// status receives a status. Patience bounds the wait; 0: no bound.
func (l *link) status(patience time.Duration) (s LogStatus, err error) {
	text, _, err := l.receive(patience, 0)
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

// Logs returns the states of the log holders at dir: of a mount that is served, and of earlier ones.
func Logs(ctx context.Context, dir string) (found []LogStatus) {
	for _, socket := range logSockets(dir) {
		l, _ := connectLog(ctx, socket)
		if l == nil {
			continue
		}
		if s, err := l.status(logGrace); err == nil {
			found = append(found, s)
		}
		_ = l.Close()
	}
	return found
}

// logSockets returns the sockets of all log holders of a mount point, also of those that were killed. There
// are none if there is no directory for sockets.
func logSockets(dir string) (all []string) {
	if place, err := logPlace(dir); err == nil {
		all, _ = filepath.Glob(place + "*.sock") // the pattern is valid
	}
	return all
}

// logPlace returns the beginning of the paths of the sockets of a mount point's log holders.
func logPlace(dir string) (string, error) {
	place, name, err := socketOf(dir)
	return filepath.Join(place, "log-"+name+"-"), err
}
