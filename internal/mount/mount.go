package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// DefaultCacheTime is how long the kernel believes names and attributes.
const DefaultCacheTime = time.Second

// maxWrite is the size of the largest read and write requests.
const maxWrite = 1 << 20

// Config of a mount.
type Config struct {
	Client    *client.Client // the mount does not close it
	Dir       string         // where to mount: an existing directory
	CacheTime time.Duration  // 0: DefaultCacheTime; negative: not at all
	Logger    *slog.Logger
}

// Mount is a mounted file system.
type Mount struct {
	dir    string
	server *fuse.Server
	done   chan struct{} // closed when nothing is served any more
}

// New mounts and serves; it returns when the mount can be used.
func New(cfg Config) (*Mount, error) {
	if err := check(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.CacheTime == 0 {
		cfg.CacheTime = DefaultCacheTime
	}
	options := &fuse.MountOptions{
		FsName:        "globalfs",
		Name:          "globalfs",
		AllowOther:    os.Getuid() == 0,
		DirectMount:   os.Getuid() == 0,
		MaxWrite:      maxWrite,
		MaxReadAhead:  maxWrite,
		MaxBackground: 64,
		Options:       []string{"default_permissions"},
		// The kernel's own flags: a mount is to be as a disk, also for set-user-id programs
		// and devices if root made it.
		DirectMountFlags: syscall.MS_NODEV,
	}
	f := &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		client:        cfg.Client,
		cacheTime:     max(0, cfg.CacheTime),
	}
	server, err := fuse.NewServer(f, cfg.Dir, options)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w%s", cfg.Dir, err, advice())
	}
	m := &Mount{dir: cfg.Dir, server: server, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		server.Serve()
	}()
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", cfg.Dir, err), m.Unmount())
	}
	return m, nil
}

// Wait returns when the mount has ended, by Unmount or from outside.
func (m *Mount) Wait() { <-m.done }

// Unmount ends the mount. If files in it are open, it vanishes from the tree at once and ends when they are
// closed (a lazy unmount), or with this process.
func (m *Mount) Unmount() error {
	select {
	case <-m.done:
		return nil // somebody else did it
	default:
	}
	err := m.server.Unmount()
	if err == nil {
		<-m.done
		return nil
	}
	if lazy := detach(m.dir); lazy != nil {
		return fmt.Errorf("unmount %s: %w; lazily: %w; try: umount -l %s", m.dir, err, lazy, m.dir)
	}
	return nil
}

// detach unmounts lazily.
func detach(dir string) error {
	if os.Getuid() == 0 {
		return syscall.Unmount(dir, syscall.MNT_DETACH)
	}
	out, err := exec.Command("fusermount3", "-u", "-z", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// check says why dir cannot be mounted on, and what to do.
func check(dir string) error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("mount %s: no /dev/fuse: load the module with 'modprobe fuse', or start the container with --device /dev/fuse --cap-add SYS_ADMIN", dir)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return fmt.Errorf("mount %s: a mount whose program has died is still there: remove it with 'umount -l %s' (or 'fusermount3 -uz %s')", dir, dir, dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("mount %s: no such directory: make it with 'mkdir -p %s'", dir, dir)
	case err != nil:
		return fmt.Errorf("mount %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("mount %s: not a directory", dir)
	}
	if what, ok := mountedAt(dir); ok {
		return fmt.Errorf("mount %s: busy: a file system (%s) is mounted there: unmount it or choose another directory", dir, what)
	}
	return nil
}

// advice names what is commonly missing.
func advice() string {
	if os.Getuid() == 0 {
		return ""
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return ": fusermount3 is not installed: 'sudo apt-get install -y fuse3'"
	}
	return ""
}
