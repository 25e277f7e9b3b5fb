package behind

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// Store is the cluster.
type Store interface {
	// Stage stores data as a block. Data must not change until the batch was written.
	Stage(ctx context.Context, ino posix.Ino, data []byte) (Staged, error)
	// Write orders a batch, and takes its staged parts: it uses or drops each.
	Write(ctx context.Context, b *Batch) error
}

// Config of Files. All fields but Forget must be set.
type Config struct {
	Store  Store
	Delay  time.Duration // after which content is ordered without a request
	Memory int64         // bound of the content in memory, in bytes; at least that of the largest write
	Logger *slog.Logger
	// Forget is called when content of an inode was lost: caches of the inode are invalid. Nil: there are
	// none.
	Forget func(ino posix.Ino)
}

// Limits.
const (
	maxStaging = 8       // blocks that are stored at a time
	maxSettled = 1 << 12 // inodes with a remembered last batch
)

// Files are the files of a mount with their kept content. Its methods may be called concurrently.
type Files struct {
	cfg       Config
	memory    *semaphore.Weighted
	staging   chan struct{} // holds a token for each block that is being stored
	unordered atomic.Int64  // batches that are not ordered yet

	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	settled *recent.Map[posix.Ino, uint64] // the number of the batch of an inode that was ordered last
	count   atomic.Uint64                  // batches that were ordered, or have failed

	names atomic.Uint64 // changes of names

	mu    sync.Mutex // is taken before that of a file
	files map[posix.Ino]*file
}

// New makes Files. Close must be called.
func New(cfg Config) *Files {
	f := &Files{
		cfg: cfg, memory: semaphore.NewWeighted(cfg.Memory), staging: make(chan struct{}, maxStaging),
		settled: recent.New[posix.Ino, uint64](maxSettled), files: map[posix.Ino]*file{},
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Write is one write to a file.
type Write struct {
	Ino       posix.Ino
	Handle    uint64 // of the open file
	Cred      posix.Cred
	Offset    uint64 // with Append: the believed end of the file
	Data      []byte
	Append    bool
	KillSetID bool
}

// Write keeps a write, and reports whether it did: if not, the caller flushes the file and orders the write
// itself. An error means that ctx ended before there was room.
func (f *Files) Write(ctx context.Context, w *Write) (kept bool, err error) {
	size := int64(len(w.Data))
	if size == 0 || size > f.cfg.Memory || w.Offset > posix.MaxSize || uint64(size) > posix.MaxSize-w.Offset {
		return false, nil
	}
	if !f.memory.TryAcquire(size) {
		f.seal(func(posix.Ino) bool { return true })
		if err := f.memory.Acquire(ctx, size); err != nil {
			return false, posix.EINTR
		}
	}
	at := f.lock(w.Ino)
	defer at.mu.Unlock()
	grown, kept := at.take(w)
	f.memory.Release(size - int64(grown)) // overwritten content takes no more memory
	return kept, nil
}

// lock returns a file, with its mutex held.
func (f *Files) lock(ino posix.Ino) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.files[ino]
	if at == nil {
		at = &file{files: f, ino: ino, told: map[uint64]uint64{}}
		f.files[ino] = at
	}
	at.mu.Lock()
	return at
}

// Open records that a file was opened: its handle gets no report of earlier losses.
func (f *Files) Open(ino posix.Ino, handle uint64) {
	at := f.lock(ino)
	defer at.mu.Unlock()
	at.told[handle] = at.failures
}

// Release records that a handle is not used any more.
func (f *Files) Release(ino posix.Ino, handle uint64) {
	at := f.get(ino)
	if at == nil {
		return
	}
	at.mu.Lock()
	delete(at.told, handle)
	at.mu.Unlock()
	f.tidy(at)
}

// tidy forgets a file that is not needed.
func (f *Files) tidy(at *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.isIdle() && f.files[at.ino] == at {
		delete(f.files, at.ino)
	}
}

func (f *Files) get(ino posix.Ino) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[ino]
}

// Flush returns when all earlier content of a file is ordered or lost. The error is that of ctx.
func (f *Files) Flush(ctx context.Context, ino posix.Ino) error {
	if f.unordered.Load() == 0 {
		return nil
	}
	at := f.get(ino)
	if at == nil {
		return nil
	}
	return at.pending().wait(ctx)
}

// wait waits for the end of a batch, if there is one.
func (r *run) wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return posix.EINTR
	}
}

// FlushHandle is Flush for an open file: it also returns the error of lost content, once for each handle.
func (f *Files) FlushHandle(ctx context.Context, ino posix.Ino, handle uint64) error {
	if err := f.Flush(ctx, ino); err != nil {
		return err
	}
	at := f.get(ino)
	if at == nil {
		return nil
	}
	return at.tell(handle)
}

// FlushAll is Flush of all files.
func (f *Files) FlushAll(ctx context.Context) error {
	return f.FlushThose(ctx, func(posix.Ino) bool { return true })
}

// FlushThose is Flush of the files for which those returns true.
func (f *Files) FlushThose(ctx context.Context, those func(posix.Ino) bool) error {
	for _, r := range f.seal(those) {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// seal seals the batches of some files, and returns the batches to wait for.
func (f *Files) seal(those func(posix.Ino) bool) (last []*run) {
	if f.unordered.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	all := make([]*file, 0, len(f.files))
	for ino, at := range f.files {
		if those(ino) {
			all = append(all, at)
		}
	}
	f.mu.Unlock()
	for _, at := range all {
		if r := at.pending(); r != nil {
			last = append(last, r)
		}
	}
	return slices.Clip(last)
}

// ordered records the end of a batch.
func (f *Files) ordered(at *file, r *run, err error) {
	f.settled.Put(at.ino, f.count.Add(1))
	f.unordered.Add(-1)
	f.memory.Release(int64(r.length))
	if f.cfg.Forget != nil && err != nil {
		f.cfg.Forget(at.ino)
	}
	at.ordered(r)
	f.tidy(at)
	close(r.done)
}

// Mark returns a moment for Changed.
func (f *Files) Mark() uint64 { return f.count.Load() }

// Changed reports whether attributes of an inode that were read after a mark may be older than a write
// through this mount: content of the inode is not ordered, or was ordered since.
func (f *Files) Changed(ino posix.Ino, mark uint64) bool {
	if f.unordered.Load() > 0 {
		if at := f.get(ino); at != nil && at.isDirty() {
			return true
		}
	}
	if f.count.Load() == mark {
		return false
	}
	last, known := f.settled.Get(ino)
	return known && last > mark
}

// Close orders the remaining content, as long as ctx lasts. No write may follow.
func (f *Files) Close(ctx context.Context) {
	if err := f.FlushAll(ctx); err != nil {
		f.cfg.Logger.Error("unmounted, but not all that was written could be ordered in time: it is lost", "batches", f.unordered.Load())
	}
	f.end()
	f.running.Wait()
}
