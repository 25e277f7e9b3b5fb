package client

import (
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// Constants of requests for existing directories.
const (
	// askAfter is the number of changes in a directory after which the client requests the directory. If the
	// last luckyStreak requests were granted, and no directory was recalled since, the client requests a
	// directory at the first change.
	askAfter    = 3
	luckyStreak = 4
	// askWithin is the maximum time from one of these changes to the next.
	askWithin = 10 * time.Second
	// After a refusal, the client does not request the directory for a time that doubles with each refusal.
	firstBackOff = 5 * time.Second
	maxBackOff   = 10 * time.Minute
	maxWishes    = 1 << 10 // directories that the client remembers
	maxParents   = 1 << 12 // files whose directory the client remembers
)

// wishes decides which directories the client requests.
type wishes struct {
	parents *recent.Map[posix.Ino, posix.Ino] // by file with one name: its directory at the last lookup

	mu     sync.Mutex
	dirs   *recent.Map[posix.Ino, wish] // GUARDED_BY mu
	streak int                          // GUARDED_BY mu; granted requests since the last refusal or return
}

// wish is the state of a directory that the client may request.
type wish struct {
	changes   int           // the number of successive changes by this client
	last      time.Time     // the time of the last change
	ctime     posix.Time    // the time of change of the directory after the last change
	notBefore time.Time     // the client does not request the directory before this time
	backOff   time.Duration // the back-off after the next refusal
}

func newWishes() *wishes {
	return &wishes{parents: recent.New[posix.Ino, posix.Ino](maxParents), dirs: recent.New[posix.Ino, wish](maxWishes)}
}

// met records that a child was found in a directory. Files with several names are not held (package
// delegation).
func (w *wishes) met(dir posix.Ino, child *posix.Attr) {
	if child.Nlink == 1 && child.Mode.IsRegular() {
		w.parents.Put(child.Ino, dir)
	}
}

// changed records a change in a directory, which has then the time of change ctime, and reports whether to
// ask for the directory.
func (w *wishes) changed(dir posix.Ino, ctime posix.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	x, _ := w.dirs.Get(dir)
	if now.Sub(x.last) > askWithin {
		x.changes = 0
	}
	x.changes++
	x.last, x.ctime = now, max(x.ctime, ctime)
	w.dirs.Put(dir, x)
	return (x.changes >= askAfter || w.streak >= luckyStreak) && w.may(&x, now)
}

// mayAsk reports whether the client may request a directory now.
func (w *wishes) mayAsk(dir posix.Ino) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	x, _ := w.dirs.Get(dir)
	return w.may(&x, time.Now())
}

func (w *wishes) may(x *wish, now time.Time) bool { return !now.Before(x.notBefore) }

// ctime returns the time of change of a directory; 0: unknown.
func (w *wishes) ctime(dir posix.Ino) posix.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x, _ := w.dirs.Get(dir); time.Since(x.last) <= askWithin {
		return x.ctime
	}
	return 0
}

// granted records that a request of the client was granted.
func (w *wishes) granted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streak++
}

// recalled records that the client returns directories after a recall. The partition of a directory decides
// when the directory can be granted again.
func (w *wishes) recalled(dirs []posix.Ino) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streak = 0
	for _, dir := range dirs {
		x, _ := w.dirs.Get(dir)
		x.changes = 0
		w.dirs.Put(dir, x)
	}
}

// backOff records that requests of the client were refused, or that the client returns directories because of
// a change of its own.
func (w *wishes) backOff(dirs []posix.Ino) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.streak = 0
	for _, dir := range dirs {
		x, _ := w.dirs.Get(dir)
		if now.Before(x.notBefore) {
			continue // the refusals belong to one event
		}
		if x.backOff == 0 || now.After(x.notBefore.Add(2*x.backOff)) {
			x.backOff = firstBackOff
		}
		x.notBefore = now.Add(x.backOff)
		x.backOff, x.changes = min(2*x.backOff, maxBackOff), 0
		w.dirs.Put(dir, x)
	}
}

// changedIn returns the directory for which the client may ask after an update, and its time of change. This
// is the directory that has changed, or the directory of the file that has changed: then its time of change
// is not known. 0: none.
func (w *wishes) changedIn(c *meta.Command, r *meta.Result) (dir posix.Ino, ctime posix.Time) {
	switch c.Op {
	case meta.OpSetAttr, meta.OpWrite, meta.OpFallocate, meta.OpSetXattr, meta.OpRemoveXattr:
		dir, _ = w.parents.Get(c.Ino)
		return dir, 0
	case meta.OpMknod:
		dir = c.Ino
		w.met(dir, &r.Attr)
	case meta.OpUnlink, meta.OpRmdir:
		dir = c.Ino
	case meta.OpLink, meta.OpRename:
		dir = c.NewParent
	}
	for _, a := range append([]posix.Attr{r.Dir}, r.Others...) {
		if a.Ino == dir {
			return dir, a.Ctime
		}
	}
	return 0, 0
}
