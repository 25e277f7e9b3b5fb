package mount

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
)

// Fsync returns when all of this survives a loss of power of all servers: what was written to the file through
// this mount, all else that this mount has ordered, and what it has seen of the partition of the file. Data that
// only the kernel has comes before.
func (f *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	ctx, end := f.waits.reading(cancel)
	defer end()
	if err := f.written.settle(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	err := f.persister.fsync(cancel, &in.InHeader, descriptor{number: in.Fh})
	if lost := f.written.settleHandle(ctx, ino(&in.InHeader), in.Fh); lost != nil {
		err = lost
	}
	return status(err)
}

// FsyncDir is Fsync of a directory.
func (f *fileSystem) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(f.persister.fsync(cancel, &in.InHeader, descriptor{number: in.Fh, directory: true}))
}

// persister has the servers write to their disks, and knows which descriptors were told that acknowledged
// updates may be lost. As for files on a disk, each descriptor gets EIO once for each loss after it was opened.
type persister struct {
	client *client.Client
	waits  *waits

	mu   sync.Mutex
	told map[descriptor]uint64 // GUARDED_BY mu; losses that it need not be told any more, if any
}

// descriptor is an open file or directory; the zero value: the mount.
type descriptor struct {
	number    uint64
	directory bool
}

func (p *persister) fsync(cancel <-chan struct{}, h *fuse.InHeader, d descriptor) error {
	ctx, end := p.waits.reading(cancel)
	defer end()
	err := p.client.Persist(ctx, ino(h))
	if p.tell(d, p.client.Losses()) {
		return posix.EIO
	}
	return err
}

// Synced is the answer of XattrSync.
type Synced struct {
	Partitions int     `json:"partitions"` // of the tree, all of which were asked
	Seconds    float64 `json:"seconds"`
}

// syncAll is fsync of everything.
func (p *persister) syncAll(ctx context.Context) ([]byte, error) {
	began := time.Now()
	err := p.client.PersistAll(ctx)
	if p.tell(descriptor{}, p.client.Losses()) {
		err = posix.EIO
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(Synced{Partitions: len(p.client.Cluster().Partitions), Seconds: time.Since(began).Seconds()})
}

// open notes that a descriptor was opened.
func (p *persister) open(d descriptor) {
	if count := p.client.Losses(); count > 0 {
		p.tell(d, count)
	}
}

// tell reports whether a descriptor is to be told of a loss now, after so many.
func (p *persister) tell(d descriptor, count uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if count == p.told[d] {
		return false
	}
	p.told[d] = count
	return true
}

// close forgets a descriptor.
func (p *persister) close(d descriptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.told, d)
}
