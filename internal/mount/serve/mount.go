package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// Config of a Mount.
type Config struct {
	Dir        string    // the mount point
	Root       posix.Ino // the mounted directory of the tree
	FileSystem FileSystem
	Options    *fuse.MountOptions // of go-fuse; they decide the Terms
	Logger     *slog.Logger
	Trace      *trace.Recorder // nil: requests are never recorded
}

// Mount is a mounted file system that this process serves. Its methods may be called concurrently.
type Mount struct {
	dir    string
	logger *slog.Logger
	fs     FileSystem
	server *server
	done   chan struct{} // closed when nothing is served any more

	background sync.WaitGroup // work that ends soon after done
	handing    chan struct{}  // holds a token while a successor has, or may have, the mount
	ending     sync.Once
	gone       atomic.Bool // a successor serves the mount

	mu      sync.Mutex
	stopped chan struct{} // GUARDED_BY mu; closed when all requests read before the last pause are answered or postponed
}

// New serves a new mount through fd, its /dev/fuse, which it takes over. It answers the kernel's INIT.
func New(cfg Config, fd int) (*Mount, error) {
	conn, err := newConnection(fd)
	if err != nil {
		return nil, err
	}
	m := newMount(&cfg, conn)
	if err := m.server.greet(); err != nil {
		return nil, errors.Join(err, conn.file.Close())
	}
	m.serve(nil)
	return m, nil
}

func newMount(cfg *Config, conn *connection) *Mount {
	m := &Mount{
		dir: cfg.Dir, logger: cfg.Logger, fs: cfg.FileSystem, server: newServer(cfg, conn),
		done: make(chan struct{}), handing: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	close(m.stopped) // there are no earlier requests
	m.fs.Connect(&Kernel{m.server})
	return m
}

// serve begins to serve, and first handles the postponed requests.
func (m *Mount) serve(postponed []*request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, stopped := m.stopped, make(chan struct{})
	m.stopped = stopped
	shift := m.server.shift(postponed)
	go func() {
		err := shift.wait(m.fs.Abandon)
		if errors.Is(err, errPaused) {
			<-before
			close(stopped)
			return
		}
		if !errors.Is(err, errEnded) {
			m.logger.Error("the mount cannot be served any more", "dir", m.dir, "error", err)
		}
		<-before
		close(stopped)
		m.end()
	}()
}

// end closes the file system and the connection when the mount is not served any more.
func (m *Mount) end() {
	m.ending.Do(func() {
		m.fs.Close()
		if err := m.server.conn.file.Close(); err != nil {
			m.logger.Debug("/dev/fuse cannot be closed", "dir", m.dir, "error", err)
		}
		close(m.done)
	})
}

// Wait returns when this process has no part in the mount any more: the mount has ended, by Unmount or from
// outside, or a successor serves it.
func (m *Mount) Wait() {
	<-m.done
	m.background.Wait()
}

// Unmount ends the mount, also if programs use it: their requests then fail.
func (m *Mount) Unmount() error {
	select {
	case <-m.done: // ended by another caller or from outside
		m.background.Wait()
		return nil
	default:
	}
	busy := mountpoint.DetachIdle(m.dir)
	if busy == nil {
		m.awaitEnd()
		return nil
	}
	select {
	case <-m.done:
		m.background.Wait()
		return nil
	default:
	}
	m.logger.Warn("the mount is in use: unmounting all the same; 'fuser -vm DIR' shows by whom", "dir", m.dir)
	if err := mountpoint.DetachBusy(m.dir); err != nil {
		return fmt.Errorf("unmount %s: %w; by force: %w; try: umount -l %s", m.dir, busy, err, m.dir)
	}
	if os.Geteuid() == 0 {
		m.awaitEnd()
	} else { // the kernel keeps the connection as long as programs have files open
		m.fs.Close()
	}
	return nil
}

// awaitEnd returns when the end of the mount was noticed. It first waits for the end of a handover.
func (m *Mount) awaitEnd() {
	select {
	case <-m.done:
	case m.handing <- struct{}{}:
		<-m.done
		<-m.handing
	}
	m.background.Wait()
}
