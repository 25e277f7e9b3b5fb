package behind

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
)

// file is an inode that is open, or has content that is not ordered.
type file struct {
	files *Files
	ino   posix.Ino

	mu       sync.Mutex
	current  *run              // GUARDED_BY mu; the collecting batch; nil: none
	last     *run              // GUARDED_BY mu; sealed, ordered last; nil: all sealed ones are ordered
	failures uint64            // GUARDED_BY mu; batches that could not be ordered
	failure  error             // GUARDED_BY mu; of the last of them
	told     map[uint64]uint64 // GUARDED_BY mu; by open handle: failures that need no report
	made     *made             // GUARDED_BY mu; at creation; nil: something else was ordered since
}

// take keeps a write, and returns the memory that it takes, in bytes. It reports false if the file has
// failed. mu is held.
func (f *file) take(w *Write) (grown int, ok bool) {
	if _, known := f.told[w.Handle]; !known {
		f.told[w.Handle] = 0 // a process that served the mount before opened it
	}
	if f.failures > 0 {
		return 0, false
	}
	if !f.current.takes(w) {
		f.seal()
		r := newRun(w)
		r.timer = time.AfterFunc(f.files.cfg.Delay, func() { f.sealOne(r) })
		f.current = r
		f.files.unordered.Add(1)
	}
	grown = f.current.add(w, f.stage)
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
		f.files.staging <- struct{}{}
		defer func() { <-f.files.staging }()
		staged, err := f.files.cfg.Store.Stage(f.files.life, f.ino, p.Data)
		if err != nil {
			r.fail(err)
			return
		}
		p.Staged = staged
	})
}

// seal orders the collecting batch, if there is one. mu is held.
func (f *file) seal() {
	r := f.current
	if r == nil {
		return
	}
	r.timer.Stop()
	f.made = nil
	if last := r.Parts[len(r.Parts)-1]; len(r.Parts) > 1 && !r.isFull(last) {
		f.stage(r, last)
	}
	before := f.last
	f.current, f.last = nil, r
	f.files.running.Go(func() { f.order(r, before) })
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
	}
	err := r.failure()
	if err == nil {
		err = f.files.cfg.Store.Write(f.files.life, &r.Batch)
	} else {
		r.drop()
	}
	if err != nil {
		f.lost(err)
	}
	r.Parts = nil
	f.files.ordered(f, r, err)
}

// lost records that a batch could not be ordered.
func (f *file) lost(err error) {
	f.files.cfg.Logger.Error("content that a program has written is lost: the write could not be ordered; fsync and close of the file report the error",
		"inode", f.ino, "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures++
	f.failure = err
}

// tell returns the failure that is to be reported to a handle now, nil if there is none.
func (f *file) tell(handle uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told[handle] == f.failures {
		return nil
	}
	f.told[handle] = f.failures
	return f.failure
}

// pending seals the collecting batch, and returns the batch that is ordered last; nil if all are ordered.
func (f *file) pending() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seal()
	return f.last
}

// ordered records the end of a batch.
func (f *file) ordered(r *run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == r {
		f.last = nil
	}
}

// isDirty reports whether content is not ordered.
func (f *file) isDirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current != nil || f.last != nil
}

// isIdle reports whether nothing needs the file any more.
func (f *file) isIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.told) == 0 && f.current == nil && f.last == nil
}
