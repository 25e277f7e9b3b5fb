package mount

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// The cookies of a directory's entries are above those of "." and "..".
const (
	cookieDot = 1 + iota
	cookieDotDot
)

// pageEntries is the number of entries of one query: one answer serves several requests of the kernel.
const pageEntries = 1024

// listings has the open directories by their handles.
type listings struct {
	mu   sync.Mutex
	last uint64              // GUARDED_BY mu
	open map[uint64]*listing // GUARDED_BY mu

	inherited uint64 // handles up to this one may be a predecessor's; set before requests are served
}

func (l *listings) add() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.open[l.last] = &listing{}
	return l.last
}

// get returns an open directory; nil if there is none. For a directory that another process opened, the pages
// are read again.
func (l *listings) get(handle uint64) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[handle] == nil && handle <= l.inherited {
		l.open[handle] = &listing{}
	}
	return l.open[handle]
}

func (l *listings) remove(handle uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, handle)
}

// listing is an open directory with the page that was read last. A position is a cookie, so any page can be
// read at any time.
type listing struct {
	mu      sync.Mutex
	after   uint64       // cookie before the first entry of the page
	entries []meta.Entry // the page; with fewer than pageEntries, the directory ends with it
	version uint64       // version of the directory when the page was read
	last    uint64       // the newest cookie when a program began to read; 0: not known
	read    time.Time    // GUARDED_BY mu; zero: never
}

// from returns the entries after cookie, and their age. Names that were added after the program has begun to
// read the directory are left out: a program that renames each name that it reads would never come to an end.
// It uses the page again only while this client knows of no later update of the partition, so that no program
// sees a name that the client knows to be removed.
func (l *listing) from(ctx context.Context, f *fileSystem, dir posix.Ino, cookie uint64) ([]meta.Entry, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := time.Since(l.read)
	if age < f.cacheTime && l.version == f.client.Version(dir) {
		if rest, ok := l.rest(cookie); ok {
			return rest, age, nil
		}
	}
	began, after := time.Now(), cookie
	if after <= cookieDotDot {
		after = 0
	}
	entries, state, err := f.client.ReadDir(ctx, dir, after, pageEntries)
	if err != nil {
		return nil, 0, err
	}
	if cookie == cookieDotDot {
		l.last = state.Last
	}
	if at := slices.IndexFunc(entries, func(e meta.Entry) bool { return e.Cookie > l.last }); l.last != 0 && at >= 0 {
		entries = entries[:at]
	}
	l.after, l.entries, l.version, l.read = cookie, entries, state.Version, began
	return entries, time.Since(began), nil
}

// rest returns the entries of the page after cookie, if it has them. The caller holds mu.
func (l *listing) rest(cookie uint64) (rest []meta.Entry, ok bool) {
	place := -1
	if cookie != l.after {
		place = slices.IndexFunc(l.entries, func(e meta.Entry) bool { return e.Cookie == cookie })
		if place < 0 {
			return nil, false
		}
	}
	rest = l.entries[place+1:]
	return rest, len(rest) > 0 || len(l.entries) < pageEntries
}

// OpenDir holds the directory, so that its attributes can be read after it was removed.
func (f *fileSystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if err := f.client.Hold(ino(&in.InHeader)); err != nil {
		return status(err)
	}
	out.Fh = f.listings.add()
	f.persister.open(descriptor{number: out.Fh, directory: true}, ino(&in.InHeader))
	return fuse.OK
}

// ReleaseDir undoes OpenDir.
func (f *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	f.client.Release(ino(&in.InHeader))
	f.persister.forget(descriptor{number: in.Fh, directory: true})
	f.listings.remove(in.Fh)
}

func (f *fileSystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(cancel, in, func(e fuse.DirEntry, _ *posix.Attr, _ time.Duration) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus also returns the attributes of entries. It leaves out those of ".", "..", files that are being
// written through this mount, and inodes in other partitions; the kernel looks these up on demand. So listing
// a directory needs only the partition of the directory, which may be the only reachable one.
func (f *fileSystem) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	mark := f.written.mark()
	return f.list(cancel, in, func(e fuse.DirEntry, a *posix.Attr, age time.Duration) bool {
		entry := out.AddDirLookupEntry(e)
		if entry != nil && a.Nlink > 0 && !f.written.changed(a, mark) {
			f.entry(&in.InHeader, e.Name, entry, a, age)
		}
		return entry != nil
	})
}

// list passes entries from in's cookie on to add, until add reports that there is no more room.
func (f *fileSystem) list(cancel <-chan struct{}, in *fuse.ReadIn, add func(e fuse.DirEntry, a *posix.Attr, age time.Duration) bool) fuse.Status {
	ctx, end := f.waits.reading(cancel, in.Pid)
	defer end()
	dir, cookie, l := ino(&in.InHeader), in.Offset, f.listings.get(in.Fh)
	if l == nil {
		return status(posix.EBADF)
	}
	for ; cookie < cookieDotDot; cookie++ {
		dots := fuse.DirEntry{Name: "..", Mode: uint32(posix.TypeDir), Off: cookie + 1}
		if cookie < cookieDot {
			dots.Name, dots.Ino = ".", uint64(dir)
		}
		if !add(dots, &posix.Attr{}, 0) {
			return fuse.OK
		}
	}
	for {
		entries, age, err := l.from(ctx, f, dir, cookie)
		if err != nil || len(entries) == 0 {
			return status(err)
		}
		for i := range entries {
			e := &entries[i]
			if !add(fuse.DirEntry{Name: e.Name, Mode: uint32(e.Attr.Mode), Ino: uint64(e.Attr.Ino), Off: e.Cookie}, &e.Attr, age) {
				return fuse.OK
			}
			cookie = e.Cookie
		}
	}
}
