package mount

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
)

// locks has the owners that may hold locks through this mount. So a close of a file without locks needs no
// call.
type locks struct {
	mu      sync.Mutex
	last    uint64                             // number of the last attempt to lock
	held    map[posix.Ino]map[lockOwner]*tries // owners that may have a lock
	endings map[posix.Ino]*ending              // GUARDED_BY mu

	background sync.WaitGroup // releases of locks of files that are closed already
	postponed  []unsettled    // GUARDED_BY mu; releases that were not done when the mount was suspended
}

// unsettled is the locks of an owner on an inode that must be released.
type unsettled struct {
	ino    posix.Ino
	owner  lockOwner
	settle func()
}

// lockOwner is the owner of locks of one kind, together with the open file through which it took them. An
// owner that used several files has several entries.
type lockOwner struct {
	file  uint64
	owner uint64
	flock bool
}

// tries are the attempts of an owner to get locks on an inode.
type tries struct {
	first   uint64 // number of the first attempt
	last    uint64 // number of the last attempt
	running int
	flushed time.Time     // time of the last close of a descriptor of the file after the attempts; it may have been the last descriptor
	gone    chan struct{} // closed when the owner has no locks
}

// ending has the locks on an inode whose release is under way.
type ending struct {
	owners map[lockOwner]int
	done   chan struct{} // closed when none is left
}

func newLocks() locks {
	return locks{held: map[posix.Ino]map[lockOwner]*tries{}, endings: map[posix.Ino]*ending{}}
}

// begin records an attempt of o to lock ino, before the attempt.
func (l *locks) begin(ino posix.Ino, o lockOwner) (attempt uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	if l.held[ino] == nil {
		l.held[ino] = map[lockOwner]*tries{}
	}
	t := l.held[ino][o]
	if t == nil {
		t = &tries{first: l.last, gone: make(chan struct{})}
		l.held[ino][o] = t
	}
	t.last, t.flushed = l.last, time.Time{}
	t.running++
	return l.last
}

// end records the outcome of an attempt. If it was the only one and has surely failed, o has no lock.
func (l *locks) end(ino posix.Ino, o lockOwner, attempt uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.held[ino][o]
	t.running--
	// After ENOLCK an earlier copy of the update may still be executed.
	doubt := errors.Is(err, posix.ETIMEDOUT) || errors.Is(err, posix.EIO) || errors.Is(err, posix.ENOLCK)
	if err != nil && !doubt && t.first == attempt && t.last == attempt {
		l.remove(ino, o)
	}
}

// holds reports whether o may hold a lock on an inode.
func (l *locks) holds(ino posix.Ino, o lockOwner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[ino][o] != nil
}

// any reports whether any owner may hold a lock on an inode.
func (l *locks) any(ino posix.Ino) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held[ino]) > 0
}

// quiet returns the number of the last attempt of o to lock ino; 0 if one is running, or if there was none.
func (l *locks) quiet(ino posix.Ino, o lockOwner) (attempt uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.held[ino][o]; t != nil && t.running == 0 {
		return t.last
	}
	return 0
}

// forget records that o has released all locks on ino, unless o has begun another attempt after the attempt
// before, which quiet returned.
func (l *locks) forget(ino posix.Ino, o lockOwner, before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.held[ino][o]; t != nil && t.last == before {
		l.remove(ino, o)
	}
}

// remove deletes an owner of locks on ino. The caller holds mu.
func (l *locks) remove(ino posix.Ino, o lockOwner) {
	close(l.held[ino][o].gone)
	delete(l.held[ino], o)
	if len(l.held[ino]) == 0 {
		delete(l.held, ino)
	}
}

// ofProcess returns the owners of fcntl locks on ino that have a given owner number.
func (l *locks) ofProcess(ino posix.Ino, owner uint64) (found []lockOwner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range l.held[ino] {
		if o.owner == owner && !o.flock {
			found = append(found, o)
		}
	}
	return found
}

// ofFile returns the owners that took locks on ino through an open file. If an owner has also used another
// file that is open, its locks stay with that file: the owner is a process, or the kernel has given its
// number to the new file.
func (l *locks) ofFile(ino posix.Ino, file uint64) (found []lockOwner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o := range l.held[ino] {
		switch {
		case o.file != file:
		case l.elsewhere(ino, o):
			l.remove(ino, o)
		default:
			found = append(found, o)
		}
	}
	return found
}

// elsewhere reports whether the owner of o has used another file. The caller holds mu.
func (l *locks) elsewhere(ino posix.Ino, o lockOwner) bool {
	for other := range l.held[ino] {
		if other.owner == o.owner && other.flock == o.flock && other.file != o.file {
			return true
		}
	}
	return false
}

// flush records that a descriptor of an open file was closed.
func (l *locks) flush(ino posix.Ino, file uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o, t := range l.held[ino] {
		if o.file == file {
			t.flushed = time.Now()
		}
	}
}

// closeDelay is a generous bound of the time from the last close of a descriptor to the release of the file:
// the kernel does not wait for the release.
const closeDelay = 500 * time.Millisecond

// awaitReleases waits until the locks of files that were just closed are released, or these files turn out to
// be open still.
func awaitReleases(ctx context.Context, closed []tries) {
	for _, t := range closed {
		timer := time.NewTimer(time.Until(t.flushed.Add(closeDelay)))
		select {
		case <-t.gone:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// flushed returns copies of the tries of the other owners with a recent close.
func (l *locks) flushed(ino posix.Ino, but lockOwner) (found []tries) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for o, t := range l.held[ino] {
		if o != but && time.Since(t.flushed) < closeDelay {
			found = append(found, *t)
		}
	}
	return found
}

// ending records that a release of the locks of o on ino is under way, until settle is called.
func (l *locks) ending(ino posix.Ino, o lockOwner) (settle func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.endings[ino]
	if e == nil {
		e = &ending{owners: map[lockOwner]int{}, done: make(chan struct{})}
		l.endings[ino] = e
	}
	e.owners[o]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.owners[o]--; e.owners[o] == 0 {
			delete(e.owners, o)
		}
		if len(e.owners) == 0 {
			close(e.done)
			delete(l.endings, ino)
		}
	}
}

func (l *locks) postpone(u unsettled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postponed = append(l.postponed, u)
}

// takePostponed returns the unsettled locks of the suspended mount, and clears the list.
func (l *locks) takePostponed() (postponed []unsettled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	postponed, l.postponed = l.postponed, nil
	return postponed
}

// settled waits until no release of a lock on ino is under way. The kernel does not wait for the release when
// a file is closed. Without the wait, a new lock of the program could conflict with its own old lock, or be
// released with it, because the kernel uses owner numbers again.
func (l *locks) settled(ctx context.Context, ino posix.Ino) error {
	for {
		l.mu.Lock()
		e := l.endings[ino]
		l.mu.Unlock()
		if e == nil {
			return nil
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return posix.ETIMEDOUT
			}
			return posix.EINTR
		}
	}
}
