package behind

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// Store is the access to the cluster.
type Store interface {
	// Stage stores data as a block. The data must not change until the batch was written.
	Stage(ctx context.Context, ino posix.Ino, data *block.Draft) (Staged, error)
	// Write orders a batch, and takes its staged parts: it uses or drops each.
	Write(ctx context.Context, b *Batch) error
	// IsQuick reports whether Write of a small batch now waits for no server, as far as is known.
	IsQuick(ino posix.Ino) bool
}

// Config of Files. All fields but Forget and IsFar must be set.
type Config struct {
	Store  Store
	Delay  time.Duration // content is ordered this time after the write at the latest
	Memory int64         // bound of the kept content in bytes; at least twice the length of the longest write
	// IsFar reports whether a file has a replica outside of the region of the mount. nil: no file has.
	IsFar  func(ino posix.Ino) bool
	Logger *slog.Logger
	// Forget is called when content of an inode was lost, so that caches of the inode are invalid. nil:
	// there are no caches.
	Forget func(ino posix.Ino)
	// Abandon is the cause of the end of the contexts that Store gets, when Close gives up.
	Abandon error
}

// Limits.
const (
	maxStaging = 8        // blocks of near files that are being stored at the same time, and of far files
	maxSealed  = 64       // batches of a file that wait to be ordered
	runCost    = 20 << 10 // memory of a batch beside its content, in bytes: a first part, a timer, a goroutine
	maxSettled = 1 << 12  // inodes for which the time of the last order is remembered
)

// Files has the kept content of the files of a mount. Its methods may be called concurrently.
type Files struct {
	cfg       Config
	budget    budget
	far       progress     // of all far files together
	unordered atomic.Int64 // number of batches that are not ordered yet

	life    context.Context
	end     context.CancelCauseFunc
	running sync.WaitGroup

	settled *recent.Map[posix.Ino, uint64] // for each inode the value of count when its content was last ordered
	count   atomic.Uint64                  // number of batches that were ordered or have failed

	names  atomic.Uint64 // number of changes of names
	closed atomic.Bool   // no further write is kept

	unreportedLosses unreportedLosses

	mu    sync.Mutex // locked before the mutex of a file
	files map[posix.Ino]*file
}

// New returns Files. The caller must call Close.
func New(cfg Config) *Files {
	f := &Files{
		cfg: cfg, budget: newBudget(cfg.Memory),
		settled: recent.New[posix.Ino, uint64](maxSettled), files: map[posix.Ino]*file{}, unreportedLosses: unreportedLosses{inos: map[posix.Ino]struct{}{}},
	}
	f.life, f.end = context.WithCancelCause(context.Background())
	return f
}

// Write is one write to a file.
type Write struct {
	Ino       posix.Ino
	Handle    uint64 // of the open file
	Cred      posix.Cred
	Offset    uint64 // with Append: the expected end of the file
	Data      []byte
	Append    bool
	KillSetID bool

	far bool // of the budget
}

// Write keeps a write. If kept is false, the caller must flush the file and order the write itself. An error
// means that ctx ended before there was room.
func (f *Files) Write(ctx context.Context, w *Write) (kept bool, err error) {
	size := int64(len(w.Data))
	most := size + runCost
	w.far = f.cfg.IsFar != nil && f.cfg.IsFar(w.Ino)
	if size == 0 || !f.budget.takes(most, w.far) || w.Offset > posix.MaxSize || uint64(size) > posix.MaxSize-w.Offset {
		return false, nil
	}
	if !f.budget.tryAcquire(most, w.far) {
		f.seal(func(at *file) bool { return !w.far || at.isFar() })
		if err := f.budget.acquire(ctx, most, w.far); err != nil {
			return false, posix.EINTR
		}
	}
	at := f.lock(w.Ino)
	defer at.mu.Unlock()
	grown, kept := at.take(w)
	f.budget.release(most-grown, w.far) // overwritten content takes no additional memory
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

// Open records that a file was opened. Losses before are not reported to its handle.
func (f *Files) Open(ino posix.Ino, handle uint64) {
	at := f.lock(ino)
	defer at.mu.Unlock()
	at.reported[handle] = at.failures
}

// Adopt records a handle of an earlier process. err is a loss that was not reported to it; nil: there is
// none.
func (f *Files) Adopt(ino posix.Ino, handle uint64, err error) {
	at := f.lock(ino)
	defer at.mu.Unlock()
	at.reported[handle] = 0
	at.failures, at.adopted, at.failure = 1, 1, err
}

// Unreported calls each for every handle with an unreported loss, with the error of the loss.
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

// TakeUnreportedLosses reports whether content was lost without a report to any program, since its last call.
func (f *Files) TakeUnreportedLosses() bool {
	f.unreportedLosses.Lock()
	defer f.unreportedLosses.Unlock()
	some := len(f.unreportedLosses.inos) > 0
	clear(f.unreportedLosses.inos)
	return some
}

// unreportedLosses has the inodes with losses of content that no program has learnt. Above maxSettled inodes,
// it drops further ones, since TakeUnreportedLosses reports only whether there are any.
type unreportedLosses struct {
	sync.Mutex
	inos map[posix.Ino]struct{} // GUARDED_BY Mutex
}

func (u *unreportedLosses) add(ino posix.Ino) {
	u.Lock()
	defer u.Unlock()
	if len(u.inos) < maxSettled {
		u.inos[ino] = struct{}{}
	}
}

func (u *unreportedLosses) remove(ino posix.Ino) {
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

// tidy removes a file that is not needed any more.
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

// Flush returns when all earlier content of a file is ordered or lost. Its error is only that of ctx.
func (f *Files) Flush(ctx context.Context, ino posix.Ino) error {
	if f.unordered.Load() == 0 {
		return nil
	}
	at := f.get(ino)
	if at == nil {
		return nil
	}
	if f.cfg.Store.IsQuick(ino) {
		at.orderHere()
	}
	return at.pending().wait(ctx)
}

// FlushToDisk is like Flush, for a caller that waits for the disks of the servers afterwards: the batch that
// collects writes has OnDisk.
func (f *Files) FlushToDisk(ctx context.Context, ino posix.Ino) error {
	if at := f.get(ino); at != nil {
		at.demandDisk()
	}
	return f.Flush(ctx, ino)
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

// FlushHandle is like Flush, for fsync of an open file, and before a write that is not kept. It also returns
// the error of lost content, once for each handle.
func (f *Files) FlushHandle(ctx context.Context, ino posix.Ino, handle uint64) error {
	return f.flushHandle(ctx, ino, handle, (*file).report)
}

// FlushDescriptor is like Flush, for the close of a descriptor of an open file. It also returns the error of
// lost content, at each close until FlushHandle has reported the loss to the handle: a duplicate of the
// descriptor, such as one inherited by a child process, may be closed without a check of the error.
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

// FlushAll calls Flush for all files.
func (f *Files) FlushAll(ctx context.Context) error {
	return f.FlushThose(ctx, func(posix.Ino) bool { return true })
}

// FlushThose calls Flush for the files for which those is true.
func (f *Files) FlushThose(ctx context.Context, those func(posix.Ino) bool) error {
	return f.flush(ctx, func(at *file) bool { return those(at.ino) })
}

// FlushMoving calls Flush for all files but those of which content waits, and none was ordered for a time:
// their servers probably do not answer. If that is true for the far files together, it is true for each one.
func (f *Files) FlushMoving(ctx context.Context, most time.Duration) error {
	return f.flush(ctx, func(at *file) bool { return !at.sealed.isStuck(most) && !(f.far.isStuck(most) && at.isFar()) })
}

func (f *Files) flush(ctx context.Context, those func(*file) bool) error {
	for _, r := range f.seal(those) {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// seal seals the batches of the files for which those is true, and returns the batches to wait for.
func (f *Files) seal(those func(*file) bool) (last []*run) {
	if f.unordered.Load() == 0 && !f.closed.Load() {
		return nil
	}
	f.mu.Lock()
	all := make([]*file, 0, len(f.files))
	for _, at := range f.files {
		if those(at) {
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
	f.budget.release(int64(r.length)+runCost, r.far)
	if f.cfg.Forget != nil && err != nil {
		f.cfg.Forget(at.ino)
	}
	at.ended(r, err == nil)
	f.tidy(at)
	close(r.done)
}

// Mark returns the present moment, for Changed.
func (f *Files) Mark() uint64 { return f.count.Load() }

// Changed reports whether attributes of an inode that were read after a mark may be older than a write
// through this mount: the inode has content that is not ordered, or that was ordered since the mark.
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

// Close orders the remaining content until ctx ends. No write is kept afterwards.
func (f *Files) Close(ctx context.Context) {
	f.closed.Store(true)
	if err := f.FlushAll(ctx); err != nil {
		f.cfg.Logger.Error("unmounted, but not all that was written could be ordered in time: it is lost", "batches", f.unordered.Load())
	}
	f.end(f.cfg.Abandon)
	f.running.Wait()
}
