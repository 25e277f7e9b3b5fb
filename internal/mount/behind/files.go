package behind

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// Store is the cluster.
type Store interface {
	// Stage stores data as a block. Data must not change until the batch was written.
	Stage(ctx context.Context, ino posix.Ino, data *block.Draft) (Staged, error)
	// Write orders a batch, and takes its staged parts: it uses or drops each.
	Write(ctx context.Context, b *Batch) error
}

// Config of Files. All fields but Forget must be set.
type Config struct {
	Store  Store
	Delay  time.Duration // after which content is ordered without a request
	Memory int64         // bound of the content in memory, in bytes; at least that of the largest write
	Logger *slog.Logger
	// Forget is called when content of an inode was lost: caches of the inode are void. Nil: there are none.
	Forget func(ino posix.Ino)
	// Abandon is the cause with which the contexts of Store end when Close gives up.
	Abandon error
}

// Limits.
const (
	maxStaging = 8        // blocks that are stored at a time
	maxSealed  = 64       // batches of a file that wait for their order
	runCost    = 20 << 10 // memory of a batch beside its content, in bytes: a first part, a timer, a goroutine
	maxSettled = 1 << 12  // inodes of which is remembered when content was ordered
)

// Files are the files of a mount with their kept content. Its methods may be called concurrently.
type Files struct {
	cfg       Config
	memory    *semaphore.Weighted
	staging   chan struct{} // holds a token for each block that is being stored
	unordered atomic.Int64  // batches that are not ordered yet

	life    context.Context
	end     context.CancelCauseFunc
	running sync.WaitGroup

	settled *recent.Map[posix.Ino, uint64] // the number of the batch of an inode that was ordered last
	count   atomic.Uint64                  // batches that were ordered, or have failed

	names  atomic.Uint64 // changes of names
	closed atomic.Bool   // no write is kept any more

	untold untold

	mu    sync.Mutex // is taken before that of a file
	files map[posix.Ino]*file
}

// New makes Files. Close must be called.
func New(cfg Config) *Files {
	f := &Files{
		cfg: cfg, memory: semaphore.NewWeighted(cfg.Memory), staging: make(chan struct{}, maxStaging),
		settled: recent.New[posix.Ino, uint64](maxSettled), files: map[posix.Ino]*file{}, untold: untold{inos: map[posix.Ino]struct{}{}},
	}
	f.life, f.end = context.WithCancelCause(context.Background())
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
	most := size + runCost
	if size == 0 || most > f.cfg.Memory || w.Offset > posix.MaxSize || uint64(size) > posix.MaxSize-w.Offset {
		return false, nil
	}
	if !f.memory.TryAcquire(most) {
		f.seal(func(posix.Ino) bool { return true })
		if err := f.memory.Acquire(ctx, most); err != nil {
			return false, posix.EINTR
		}
	}
	at := f.lock(w.Ino)
	defer at.mu.Unlock()
	grown, kept := at.take(w)
	f.memory.Release(most - grown) // overwritten content takes no more
	return kept, nil
}

// lock returns a file, with its mutex held.
func (f *Files) lock(ino posix.Ino) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.files[ino]
	if at == nil {
		at = &file{files: f, ino: ino, reported: map[uint64]uint64{}}
		f.files[ino] = at
	}
	at.mu.Lock()
	return at
}

// Open records that a file was opened: its handle gets no report of earlier losses.
func (f *Files) Open(ino posix.Ino, handle uint64) {
	at := f.lock(ino)
	defer at.mu.Unlock()
	at.reported[handle] = at.failures
}

// Adopt notes a handle of a process that has served the mount before. The handle is told of err as of content
// that is lost.
func (f *Files) Adopt(ino posix.Ino, handle uint64, err error) {
	at := f.lock(ino)
	defer at.mu.Unlock()
	at.reported[handle] = 0
	at.failures, at.adopted, at.failure = 1, 1, err
}

// Unreported calls each with the handles that were not told yet of content that is lost, and with the error.
func (f *Files) Unreported(each func(ino posix.Ino, handle uint64, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ino, at := range f.files {
		at.mu.Lock()
		for handle, reported := range at.reported {
			if reported != at.failures {
				each(ino, handle, at.failure)
			}
		}
		at.mu.Unlock()
	}
}

// TellLosses reports whether content was lost since its last call, and no program has the error.
func (f *Files) TellLosses() bool {
	f.untold.Lock()
	defer f.untold.Unlock()
	some := len(f.untold.inos) > 0
	clear(f.untold.inos)
	return some
}

// untold are the inodes with losses for TellLosses. Above maxSettled, further inodes count with these.
type untold struct {
	sync.Mutex
	inos map[posix.Ino]struct{} // GUARDED_BY Mutex
}

func (u *untold) add(ino posix.Ino) {
	u.Lock()
	defer u.Unlock()
	if len(u.inos) < maxSettled {
		u.inos[ino] = struct{}{}
	}
}

func (u *untold) remove(ino posix.Ino) {
	u.Lock()
	defer u.Unlock()
	delete(u.inos, ino)
}

// Release records that a handle is not used any more.
func (f *Files) Release(ino posix.Ino, handle uint64) {
	at := f.get(ino)
	if at == nil {
		return
	}
	at.mu.Lock()
	delete(at.reported, handle)
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

// FlushHandle is Flush for fsync of an open file, and for a write that is not kept: the error is also that of
// content that was lost, once for each handle.
func (f *Files) FlushHandle(ctx context.Context, ino posix.Ino, handle uint64) error {
	return f.flushHandle(ctx, ino, handle, (*file).report)
}

// FlushDescriptor is Flush for the close of a descriptor of an open file. The error is also that of content
// that was lost, until FlushHandle has told the handle: a duplicate of the descriptor, such as one that a
// child process has inherited, may be closed without a look at the error.
func (f *Files) FlushDescriptor(ctx context.Context, ino posix.Ino, handle uint64) error {
	return f.flushHandle(ctx, ino, handle, (*file).unreported)
}

func (f *Files) flushHandle(ctx context.Context, ino posix.Ino, handle uint64, failure func(*file, uint64) error) error {
	if err := f.Flush(ctx, ino); err != nil {
		return err
	}
	at := f.get(ino)
	if at == nil {
		return nil
	}
	return failure(at, handle)
}

// IsSettled reports whether all content is ordered or lost.
func (f *Files) IsSettled() bool { return f.unordered.Load() == 0 }

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
	if f.unordered.Load() == 0 && !f.closed.Load() {
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
	return last
}

// ordered records the end of a batch.
func (f *Files) ordered(at *file, r *run, err error) {
	f.settled.Put(at.ino, f.count.Add(1))
	f.unordered.Add(-1)
	f.memory.Release(int64(r.length) + runCost)
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

// Close orders the remaining content, as long as ctx lasts. From now on no write is kept.
func (f *Files) Close(ctx context.Context) {
	f.closed.Store(true)
	if err := f.FlushAll(ctx); err != nil {
		f.cfg.Logger.Error("unmounted, but not all that was written could be ordered in time: it is lost", "batches", f.unordered.Load())
	}
	f.end(f.cfg.Abandon)
	f.running.Wait()
}
