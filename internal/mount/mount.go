package mount

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
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
	CacheTime time.Duration  // 0: DefaultCacheTime; negative: not at all
	Logger    *slog.Logger   // nil: slog.Default()
	// Collector deletes what nobody needs when somebody asks for it by XattrGC; nil: nobody may.
	Collector *collector.Collector
	// Storage knows and changes the storage servers when somebody asks for it by XattrStorage; nil: nobody may.
	Storage Storage
}

// Mount is a mounted file system.
type Mount struct {
	dir    string
	logger *slog.Logger
	server *fuse.Server
	done   chan struct{} // closed when nothing is served any more
}

// New mounts and serves; it returns when the mount can be used. Errors say what to do.
func New(cfg Config) (*Mount, error) {
	if cfg.CacheTime == 0 {
		cfg.CacheTime = DefaultCacheTime
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	dir, err := checkDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkDevice(dir); err != nil {
		return nil, err
	}
	server, err := fuse.NewServer(newFileSystem(&cfg), dir, options(cfg.Logger))
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w%s", dir, err, advice())
	}
	m := &Mount{dir: dir, logger: cfg.Logger, server: server, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		server.Serve()
	}()
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: the root directory cannot be read: %w: check that the servers run and can be reached", dir, err), m.Unmount())
	}
	if err := readFarAhead(dir); err != nil {
		cfg.Logger.Debug("read-ahead stays at the kernel's default: reading far files in sequence is slower", "dir", dir, "reason", err)
	}
	return m, nil
}

// options says what is asked of the kernel, and why.
func options(logger *slog.Logger) *fuse.MountOptions {
	root := os.Geteuid() == 0
	return &fuse.MountOptions{
		FsName: "globalfs", Name: "globalfs", // df -T: fuse.globalfs
		// The kernel checks permissions, with the caller's groups, which FUSE does not tell us.
		Options: []string{"default_permissions"},
		// As root a mount serves all users; others need user_allow_other in /etc/fuse.conf for that.
		AllowOther:    root,
		DirectMount:   root, // without fusermount3; with it if that fails
		MaxWrite:      maxRequest,
		MaxBackground: maxBackground,
		EnableLocks:   true,
		// Nothing is spliced: contents come from the network.
		DisableSplice: true,
		// Not CAP_ATOMIC_O_TRUNC: it would cut a running program before ETXTBSY is checked.
		ExtraCapabilities: fuse.CAP_READDIRPLUS_AUTO | // attributes with names only where they were asked for before
			fuse.CAP_HANDLE_KILLPRIV_V2, // no request for security.capability before each write
		// Passing through to local files is not what we do, and counts in how deep overlays may stack.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		Logger:               slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		PanicHandler: func(evidence any) fuse.Status {
			logger.Error("a request broke the mount's code: it gets EIO; please report this", "panic", evidence, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}

// Wait returns when the mount has ended, by Unmount or from outside.
func (m *Mount) Wait() { <-m.done }

// Unmount ends the mount. If it is busy, it is taken away from under those who use it: their files fail
// from then on.
func (m *Mount) Unmount() error {
	select {
	case <-m.done:
		return nil // somebody else did it
	default:
	}
	busy := m.server.Unmount()
	if busy == nil {
		<-m.done
		return nil
	}
	select {
	case <-m.done:
		return nil
	default:
	}
	m.logger.Warn("the mount is in use: unmounting all the same; 'fuser -vm DIR' shows by whom", "dir", m.dir)
	if err := m.detach(); err != nil {
		return fmt.Errorf("unmount %s: %w; by force: %w; try: umount -l %s", m.dir, busy, err, m.dir)
	}
	return nil
}

// detach takes the mount out of the tree at once. As root it also ends the connection; otherwise that ends with
// the last user or with this process.
func (m *Mount) detach() error {
	if os.Geteuid() == 0 {
		if err := unix.Unmount(m.dir, unix.MNT_DETACH|unix.MNT_FORCE); err != nil {
			return err
		}
		<-m.done
		return nil
	}
	out, err := exec.Command("fusermount3", "-u", "-z", m.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
