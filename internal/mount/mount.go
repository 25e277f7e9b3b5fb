package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/posix"
)

// DefaultCacheTime is how long the kernel believes names and attributes.
const DefaultCacheTime = time.Second

// maxRequest is the size of the largest read and write requests, in bytes: one block.
const maxRequest = 1 << 20

// maxBackground bounds the requests that nobody waits for, read-ahead above all: enough to fill a
// long link.
const maxBackground = 64

// Config of a mount.
type Config struct {
	Client    *client.Client // the mount does not close it
	Dir       string         // where to mount: an existing directory
	Subdir    string         // the directory of the tree that is mounted, by its path; empty: all of it. Take goes on with the one that is
	CacheTime time.Duration  // 0: DefaultCacheTime; negative: not at all
	Logger    *slog.Logger   // nil: slog.Default()
	// Collector deletes what nobody needs when somebody asks for it by XattrGC; nil: nobody may.
	Collector *collector.Collector
	// Storage knows and changes the storage servers when somebody asks for it by XattrStorage; nil: nobody may.
	Storage Storage
	Options Options
}

// Mount is a mounted file system.
type Mount struct {
	dir    string
	logger *slog.Logger
	fs     *fileSystem
	server *server
	done   chan struct{} // closed when nothing is served any more

	background sync.WaitGroup // what ends soon after done
	handing    chan struct{}  // holds a token while the mount is, or may be, with a successor
	ending     sync.Once
	gone       atomic.Bool // a successor serves it

	mu      sync.Mutex
	stopped chan struct{} // GUARDED_BY mu; closed when all that was read before the last pause is answered or left
}

// New mounts and serves; it returns when the mount can be used. Errors say what to do.
func New(cfg Config) (*Mount, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	dir, err := checkDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkDevice(dir); err != nil {
		return nil, err
	}
	root, err := find(cfg.Client, cfg.Subdir)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := reach(cfg.Client, dir, root); err != nil {
		return nil, err
	}
	fd, err := attach(dir, &cfg.Options)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w%s", dir, err, advice())
	}
	m, err := begin(&cfg, dir, root, fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", dir, err), detachBusy(dir))
	}
	if err := awaken(dir); err != nil {
		return nil, errors.Join(unreachable(dir, err), m.Unmount())
	}
	if err := readFarAhead(dir); err != nil {
		cfg.Logger.Debug("read-ahead stays at the kernel's default: reading far files in sequence is slower", "dir", dir, "reason", err)
	}
	return m, nil
}

// complete fills in what was left out.
func (cfg *Config) complete() error {
	if cfg.CacheTime == 0 {
		cfg.CacheTime = DefaultCacheTime
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Options.FsName == "" {
		cfg.Options.FsName = DefaultFsName
	}
	return cfg.Options.Validate()
}

// reach says whether there is anything to mount, before programs can begin to wait for it.
func reach(c *client.Client, dir string, root posix.Ino) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout())
	defer cancel()
	if _, err := c.GetAttr(ctx, root); err != nil {
		return unreachable(dir, err)
	}
	return nil
}

func unreachable(dir string, err error) error {
	return fmt.Errorf("mount %s: the root directory cannot be read: %w: check that the servers run and can be reached", dir, err)
}

// begin serves a mount that was just made.
func begin(cfg *Config, dir string, root posix.Ino, fd int) (*Mount, error) {
	conn, err := newConnection(fd)
	if err != nil {
		return nil, err
	}
	m := newMount(cfg, dir, root, conn)
	if err := m.server.greet(); err != nil {
		return nil, errors.Join(err, conn.file.Close())
	}
	m.serve(nil)
	return m, nil
}

func newMount(cfg *Config, dir string, root posix.Ino, conn *connection) *Mount {
	f := newFileSystem(cfg)
	m := &Mount{
		dir: dir, logger: cfg.Logger, fs: f, server: newServer(conn, f, root, wishes(cfg.Logger), cfg.Logger),
		done: make(chan struct{}), handing: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	close(m.stopped) // there was nothing before
	return m
}

// serve begins to serve, with requests that were left.
func (m *Mount) serve(left []*request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, stopped := m.stopped, make(chan struct{})
	m.stopped = stopped
	shift := m.server.shift(left)
	go func() {
		err := shift.wait(m.fs.waits.end)
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

// end closes what is left when nothing is served any more.
func (m *Mount) end() {
	m.ending.Do(func() {
		m.fs.waits.end()
		m.fs.locks.background.Wait()
		if err := m.server.conn.file.Close(); err != nil {
			m.logger.Debug("/dev/fuse cannot be closed", "dir", m.dir, "error", err)
		}
		close(m.done)
	})
}

// Wait returns when this process has nothing to do with the mount any more: it has ended, by Unmount or from outside, or a successor
// serves it.
func (m *Mount) Wait() {
	<-m.done
	m.background.Wait()
}

// Unmount ends the mount. If it is busy, it is taken away from under those who use it: their files fail
// from then on.
func (m *Mount) Unmount() error {
	select {
	case <-m.done: // somebody else did it
		m.background.Wait()
		return nil
	default:
	}
	busy := detachIdle(m.dir)
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
	if err := detachBusy(m.dir); err != nil {
		return fmt.Errorf("unmount %s: %w; by force: %w; try: umount -l %s", m.dir, busy, err, m.dir)
	}
	if os.Geteuid() == 0 {
		m.awaitEnd()
	}
	return nil
}

// awaitEnd returns when the end of the mount was noticed. A handover that is under way comes to its end before.
func (m *Mount) awaitEnd() {
	select {
	case <-m.done:
	case m.handing <- struct{}{}:
		<-m.done
		<-m.handing
	}
	m.background.Wait()
}
