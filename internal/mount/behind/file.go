package behind

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
)

// file is an inode that is open, or has content that is not ordered.
type file struct {
	files  *Files
	ino    posix.Ino
	silent atomic.Bool // servers did not answer: content is lost, and no more is sent to them
	sealed progress    // of the batches that are sealed

	mu       sync.Mutex
	current  *run              // GUARDED_BY mu; collects writes; nil: none
	last     *run              // GUARDED_BY mu; the batch that will be ordered last; nil: all sealed batches are ordered
	failures uint64            // GUARDED_BY mu; number of batches that could not be ordered
	failure  error             // GUARDED_BY mu; error of the last of them
	reported map[uint64]uint64 // GUARDED_BY mu; by open handle: the number of failures that FlushHandle has reported
	adopted  uint64            // GUARDED_BY mu; number of failures before this process; handles that are not in reported know of them
	made     *made             // GUARDED_BY mu; creation of the file, as long as nothing else of it was ordered; nil: none
}

// take keeps a write, and returns the memory that it needs in bytes. It reports false if the file has failed,
// or if too many of its batches wait to be ordered. The caller holds mu.
func (f *file) take(w *Write) (grown int64, ok bool) {
	f.reported[w.Handle] = f.reportedTo(w.Handle) // the handle may have been opened by an earlier process
	if f.failures > 0 || f.files.closed.Load() {
		return 0, false
	}
	if !f.current.takes(w) {
		if f.sealed.count() >= maxSealed {
			return 0, false
		}
		grown = runCost
		f.seal()
		r := newRun(w)
		r.timer = time.AfterFunc(f.files.cfg.Delay, func() { f.sealOne(r) })
		f.current = r
		f.files.unordered.Add(1)
	}
	grown += int64(f.current.add(w, f.stage))
	if f.current.isLong() {
		f.seal()
	}
	return grown, true
}

// stage stores a part of a batch in the background.
func (f *file) stage(r *run, p *Part) {
	r.staging.Add(1)
	f.files.running.Go(func() {
		defer r.staging.Done()
		staging := f.files.budget.staging[r.far]
		staging <- struct{}{}
		defer func() { <-staging }()
		if f.silent.Load() {
			r.fail(posix.ETIMEDOUT) // do not wait for another timeout
			return
		}
		staged, err := f.files.cfg.Store.Stage(f.files.life, f.ino, &p.Data)
		if err != nil {
			f.fail(r, err)
			return
		}
		p.Staged = staged
	})
}

// seal begins to order the batch that collects writes, if there is one. The caller holds mu.
func (f *file) seal() {
	r := f.current
	if r == nil {
		return
	}
	before := f.end(r)
	if last := r.Parts[len(r.Parts)-1]; len(r.Parts) > 1 && !r.isFull(last) {
		f.stage(r, last)
	}
	f.files.running.Go(func() { f.order(r, before) })
}

// end ends the collection of a batch, and returns the one before it that is not ordered. The caller holds mu.
func (f *file) end(r *run) (before *run) {
	r.timer.Stop()
	before = f.last
	f.made, f.current, f.last = nil, nil, r
	f.sealed.began()
	if r.far {
		f.files.far.began()
	}
	return before
}

// orderHere orders the batch that collects writes in this goroutine, which is cheaper than in another one. It
// does nothing if the batch waits for others, or for blocks.
func (f *file) orderHere() {
	f.mu.Lock()
	r := f.current
	if r == nil || f.last != nil || len(r.Parts) > 1 || r.isFull(r.Parts[0]) {
		f.mu.Unlock()
		return
	}
	f.end(r)
	f.files.running.Add(1)
	f.mu.Unlock()
	defer f.files.running.Done()
	f.order(r, nil)
}

// sealOne seals a batch unless it is sealed already.
func (f *file) sealOne(r *run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == r {
		f.seal()
	}
}

// order orders a batch after the one before it.
func (f *file) order(r, before *run) {
	r.staging.Wait()
	if before != nil {
		<-before.done
		if err := before.failure(); isUnreachable(err) {
			r.fail(err) // do not wait for another timeout
		}
	}
	err := r.failure()
	if err == nil {
		err = f.files.cfg.Store.Write(f.files.life, &r.Batch)
		f.fail(r, err)
	} else {
		r.drop()
	}
	if err != nil {
		f.lost(err)
	}
	r.Parts = nil
	f.files.ordered(f, r, err)
}

// fail records the reason why a batch is lost; nil: it is not.
func (f *file) fail(r *run, err error) {
	if isUnreachable(err) {
		f.silent.Store(true)
	}
	r.fail(err)
}

// isUnreachable reports whether an error means that servers did not answer.
func isUnreachable(err error) bool {
	return errors.Is(err, posix.ETIMEDOUT) || errors.Is(err, posix.EIO)
}

// lost records that a batch could not be ordered.
func (f *file) lost(err error) {
	f.files.cfg.Logger.Error("content that a program has written is lost: the write could not be ordered; fsync and close of the file report the error",
		"inode", f.ino, "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures++
	f.failure = err
	f.files.unreportedLosses.add(f.ino)
}

// reportedTo returns the number of failures that were reported to a handle. The caller holds mu.
func (f *file) reportedTo(handle uint64) uint64 {
	if n, known := f.reported[handle]; known {
		return n
	}
	return f.adopted
}

// unreported returns the newest failure if it was not reported to a handle; nil: all were.
func (f *file) unreported(handle uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reportedTo(handle) == f.failures {
		return nil
	}
	f.files.unreportedLosses.remove(f.ino)
	return f.failure
}

// report returns unreported, and records that it was reported.
func (f *file) report(handle uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reportedTo(handle) == f.failures {
		return nil
	}
	f.reported[handle] = f.failures
	f.files.unreportedLosses.remove(f.ino)
	return f.failure
}

// pending seals the batch that collects writes, and returns the batch that will be ordered last; nil: all are
// ordered.
func (f *file) pending() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seal()
	return f.last
}

// demandDisk demands the disks of servers for the batch that collects writes.
func (f *file) demandDisk() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		f.current.OnDisk = true
	}
}

// ended records the end of a batch, which was ordered or has failed.
func (f *file) ended(r *run, ordered bool) {
	f.sealed.ended(ordered)
	if r.far {
		f.files.far.ended(ordered)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == r {
		f.last = nil
	}
}

// isFar reports whether the file has far content that is not ordered.
func (f *file) isFar() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current != nil && f.current.far || f.last != nil && f.last.far
}

// isDirty reports whether the file has content that is not ordered.
func (f *file) isDirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current != nil || f.last != nil
}

// isIdle reports whether the file is not needed any more.
func (f *file) isIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reported) == 0 && f.current == nil && f.last == nil
}
