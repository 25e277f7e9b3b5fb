package client

import (
	"errors"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// maxDirectories is the number of changed directories that a client remembers.
const maxDirectories = 1 << 10

// directories remembers the attributes of directories that came with the answers to changes of names in them.
//
//   - Answers arrive in any order. An answer with a time of change that is not later than that of the
//     previous answer makes the client forget all directories. So do other changes of this client, and
//     changes with an unknown outcome. All of that is rare. An answer to a change that was sent before the
//     forgetting is not remembered.
//   - A change by another client makes the client forget the directory, if the client hears of it (leases).
//     So attributes are valid for a limited time.
type directories struct {
	known *recent.Map[posix.Ino, changedDir]

	mu    sync.Mutex
	since time.Time // GUARDED_BY mu; answers to changes sent before it are forgotten
}

// changedDir is a directory as an answer has described it.
type changedDir struct {
	attr posix.Attr
	sent time.Time // when the change was sent
	void bool      // another client has changed the directory since: only answers to changes sent later count
}

func newDirectories() *directories {
	return &directories{known: recent.New[posix.Ino, changedDir](maxDirectories)}
}

// changed stores the outcome of a change of a name that was sent at the time sent.
func (d *directories) changed(r *meta.Result, err error, sent time.Time) {
	dir := &r.Dir
	switch {
	case err == nil && dir.Ino != 0:
	case refused(err):
		return
	default:
		d.forget()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !sent.After(d.since) {
		return
	}
	before, ok := d.known.Get(dir.Ino)
	switch {
	case !ok || !before.sent.After(d.since):
	case before.void && !sent.After(before.sent):
		return
	case !before.void && before.attr.Ctime >= dir.Ctime:
		d.since = time.Now() // the later one is not known: clocks differ
		return
	}
	d.known.Put(dir.Ino, changedDir{attr: *dir, sent: sent})
}

// changedElsewhere forgets a directory because another client has changed a name in it.
func (d *directories) changedElsewhere(dir posix.Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known.Put(dir, changedDir{sent: time.Now(), void: true})
}

// refused reports whether an error says that a change was not made.
func refused(err error) bool {
	var code posix.Code
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case posix.EEXIST, posix.ENOENT, posix.ENOTEMPTY, posix.ENOTDIR, posix.EISDIR, posix.EACCES, posix.EPERM, posix.ENAMETOOLONG:
		return true
	}
	return false
}

// removed forgets a directory that was removed.
func (d *directories) removed(attr *posix.Attr) {
	if attr.Mode.IsDir() {
		d.forget()
	}
}

// forget forgets all directories.
func (d *directories) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since = time.Now()
}

// recent returns the attributes of a directory if its change was sent less than most ago, and their age.
func (d *directories) recent(dir posix.Ino, most time.Duration) (attr posix.Attr, age time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.known.Get(dir)
	age = time.Since(k.sent)
	if !ok || k.void || age >= most || !k.sent.After(d.since) {
		return posix.Attr{}, 0, false
	}
	return k.attr, age, true
}
