package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/mount/mountpoint"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/trace"
)

// DefaultCacheTime is the time for which the kernel caches names and attributes.
const DefaultCacheTime = time.Second

// maxBackground bounds the requests without a waiting process, mainly read-ahead. It suffices to fill a long
// link.
const maxBackground = 64

// Config of a mount.
type Config struct {
	Client    *client.Client // the caller closes it
	Dir       string         // directory on which to mount, which must exist
	Subdir    string         // path of the directory of the tree to mount; empty: the root. Take ignores it and keeps the present one
	CacheTime time.Duration  // time for which the kernel caches names and attributes; 0: DefaultCacheTime; negative: not at all
	Logger    *slog.Logger   // nil: slog.Default()
	// Sync makes each write ordered before it is answered. Otherwise writes are collected until the file is
	// closed at the latest: see "Guarantees for programs".
	Sync bool
	// Collector deletes unneeded blocks on request (XattrGC); nil: such requests are refused.
	Collector *collector.Collector
	// Holders asks the storage servers for the copies of blocks, for XattrInfo; nil: XattrInfo omits the
	// copies.
	Holders HoldersFunc
	Trace   *trace.Recorder // records the client's calls, for XattrTrace; nil: there are no traces
	Options Options
}

// New mounts and serves; it returns when the mount can be used. Its errors name the remedy.
func New(cfg Config) (*serve.Mount, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	dir, err := mountpoint.CheckDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := mountpoint.CheckDevice(dir); err != nil {
		return nil, err
	}
	root, err := findRoot(cfg.Client, cfg.Subdir)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := reach(cfg.Client, dir, root); err != nil {
		return nil, err
	}
	fd, err := mountpoint.Attach(dir, cfg.Options.kernel())
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w%s", dir, err, mountpoint.Advice())
	}
	served := cfg.served(newFileSystem(&cfg))
	served.Dir, served.Root = dir, root
	m, err := serve.New(served, fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", dir, err), mountpoint.DetachBusy(dir))
	}
	if err := mountpoint.Awaken(dir); err != nil {
		return nil, errors.Join(unreachable(dir, err), m.Unmount())
	}
	if err := mountpoint.ReadFarAhead(dir); err != nil {
		cfg.Logger.Debug("read-ahead stays at the kernel's default: reading far files in sequence is slower", "dir", dir, "reason", err)
	}
	return m, nil
}

// Take takes a mount over from another process. The client in cfg must have been made to resume ClientState.
// Dir, Subdir and Options are those of the mount. If Take fails, the mount is unchanged: the caller closes
// handed, and the previous process continues to serve.
func Take(cfg Config, handed *serve.Handed) (*serve.Mount, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return serve.Take(cfg.served(newFileSystem(&cfg)), handed)
}

// served returns the part of the configuration that package serve needs.
func (cfg *Config) served(f serve.FileSystem) serve.Config {
	return serve.Config{FileSystem: f, Options: wishes(cfg.Logger), Logger: cfg.Logger, Trace: cfg.Trace}
}

// complete sets the defaults and validates the options.
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

// reach fails if the root of the mount cannot be read. It is called before programs can wait for the mount.
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
