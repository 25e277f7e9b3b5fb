package mount

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// Fsync returns when all of the following survive a loss of power of all servers: the content written to the
// file through this mount, all other ordered updates of this mount, and the updates of the file's partition
// that this mount has seen. The kernel sends its own dirty pages before.
func (f *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	if err := f.written.settleToDisk(ctx, ino(&in.InHeader)); err != nil {
		return status(err)
	}
	err := f.persister.fsync(ctx, &in.InHeader, descriptor{number: in.Fh})
	if lost := f.written.settleHandle(ctx, ino(&in.InHeader), in.Fh); lost != nil {
		err = lost
	}
	return status(err)
}

// FsyncDir is like Fsync, for a directory.
func (f *fileSystem) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	return status(f.persister.fsync(ctx, &in.InHeader, descriptor{number: in.Fh, directory: true}))
}

// persister makes the servers write to their disks, and reports possible losses of acknowledged updates. As
// on a local disk, each descriptor gets EIO once for each loss after its open that concerns its file or
// directory. The mount itself gets it once for each loss.
type persister struct {
	client *client.Client

	mu       sync.Mutex
	reported map[descriptor]uint64 // number of losses that the descriptor need not report any more, including reports by other processes
}

// descriptor is an open file or directory; the zero value: the mount.
type descriptor struct {
	number    uint64
	directory bool
}

func (p *persister) fsync(ctx context.Context, h *fuse.InHeader, d descriptor) error {
	err := p.client.Persist(ctx, ino(h))
	if p.mustReport(d, p.client.LossesOf(ino(h))) {
		return posix.EIO
	}
	return err
}

// close returns EIO if the descriptor has not reported a loss. That does not count as a report, because a
// duplicate of the descriptor may be open, on which fsync is called later.
func (p *persister) close(h *fuse.InHeader, d descriptor) error {
	lost := p.client.LossesOf(ino(h))
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost != p.reported[d] {
		return posix.EIO
	}
	return nil
}

// Synced is the answer of XattrSync.
type Synced struct {
	Partitions int     `json:"partitions"` // number of partitions of the tree, all of which were queried
	Seconds    float64 `json:"seconds"`
}

// syncAll is like Fsync, for everything that this mount has written and seen.
func (p *persister) syncAll(ctx context.Context) ([]byte, error) {
	began := time.Now()
	err := p.client.PersistAll(ctx)
	if p.mustReport(descriptor{}, p.client.Losses()) {
		err = posix.EIO
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(Synced{Partitions: len(p.client.Cluster().Partitions), Seconds: time.Since(began).Seconds()})
}

// open records that a descriptor of an inode was opened.
func (p *persister) open(d descriptor, ino posix.Ino) {
	if count := p.client.LossesOf(ino); count > 0 {
		p.mustReport(d, count)
	}
}

// mustReport reports whether a descriptor must report a loss now, and records that it has done so. count is
// the number of losses so far.
func (p *persister) mustReport(d descriptor, count uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if count == p.reported[d] {
		return false
	}
	p.reported[d] = count
	return true
}

// forget forgets a descriptor.
func (p *persister) forget(d descriptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reported, d)
}

// state returns the reports so far, for another process.
func (p *persister) state() (all []serve.Reported) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, count := range p.reported {
		all = append(all, serve.Reported{File: d.number, Directory: d.directory, Losses: count})
	}
	return all
}

// adopt continues from the state of another process.
func (p *persister) adopt(all []serve.Reported) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range all {
		p.reported[descriptor{t.File, t.Directory}] = t.Losses
	}
}
