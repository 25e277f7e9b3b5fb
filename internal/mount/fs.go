package mount

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/progress"
)

// fileSystem answers the requests of the kernel. Its methods are called concurrently. For a request without
// an implementation it returns ENOSYS, after which the kernel does not send this kind of request again.
type fileSystem struct {
	fuse.RawFileSystem
	client    *client.Client
	kernel    *serve.Kernel // nil: no requests are served yet
	waits     *waits
	persister *persister
	written   *written
	cacheTime time.Duration

	versions versions
	listings listings
	retries  retries
	locks    locks
	setIDs   setIDs
	notices  notices
	files    atomic.Uint64  // number of opened files: the source of handles
	checking sync.Mutex     // held during an fsck
	checked  progress.Meter // progress of the present or last fsck

	collector  *collector.Collector // nil: this mount collects no blocks
	collecting sync.Mutex           // held during a collection
	collected  atomic.Pointer[[]byte]

	holders HoldersFunc // nil: not known
	traces  traces

	logger *slog.Logger
}

func newFileSystem(cfg *Config) *fileSystem {
	w := newWaits(cfg.Client)
	f := &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		client:        cfg.Client,
		waits:         w,
		persister:     &persister{client: cfg.Client, reported: map[descriptor]uint64{}},
		cacheTime:     max(0, cfg.CacheTime),
		versions:      versions{opened: map[posix.Ino]version{}},
		listings:      listings{open: map[uint64]*listing{}},
		retries:       retries{refused: map[uint32]time.Time{}},
		locks:         newLocks(),
		setIDs:        newSetIDs(),
		collector:     cfg.Collector,
		holders:       cfg.Holders,
		traces:        traces{cfg.Trace},
		logger:        cfg.Logger,
	}
	f.notices.init(f)
	f.written = newWritten(cfg, func(ino posix.Ino) {
		f.versions.forget(ino) // the next open drops the pages at the latest
		f.kernel.ForgetAttributes(uint64(ino))
	})
	return f
}

func (f *fileSystem) String() string { return "globalfs" }

// status converts an error of the client to a FUSE status, by the only table of errnos.
func status(err error) fuse.Status {
	var code posix.Code
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &code):
		return fuse.Status(code.Errno())
	}
	return fuse.Status(posix.EIO.Errno())
}

func cred(h *fuse.InHeader) posix.Cred { return posix.Cred{UID: h.Uid, GID: h.Gid} }

func ino(h *fuse.InHeader) posix.Ino { return posix.Ino(h.NodeId) }

func at(h *fuse.InHeader, name string) client.Name { return client.Name{Dir: ino(h), Name: name} }
