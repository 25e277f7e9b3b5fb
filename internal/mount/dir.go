package mount

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Cookies of a directory's entries begin above those of its "." and "..".
const (
	cookieDot = 1 + iota
	cookieDotDot
)

// page is how many entries are asked for at a time: about what fits in the kernel's buffer.
const page = 256

func (f *fileSystem) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	return fuse.OK
}

// ReleaseDir has nothing to do: a directory's position is in its cookies.
func (f *fileSystem) ReleaseDir(*fuse.ReleaseIn) {}

func (f *fileSystem) ReadDir(cancel <-chan struct{}, input *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(cancel, input, func(e fuse.DirEntry, _ *posix.Attr) bool { return out.AddDirEntry(e) })
}

func (f *fileSystem) ReadDirPlus(cancel <-chan struct{}, input *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.list(cancel, input, func(e fuse.DirEntry, a *posix.Attr) bool {
		entry := out.AddDirLookupEntry(e)
		if entry != nil && a != nil && a.Nlink != 0 {
			f.entry(entry, a)
		}
		return entry != nil
	})
}

// list gives entries to add from input's cookie on, until it has no more room. Entries without
// attributes, "." and those of another partition, are looked up by the kernel when it wants them.
func (f *fileSystem) list(cancel <-chan struct{}, input *fuse.ReadIn, add func(fuse.DirEntry, *posix.Attr) bool) fuse.Status {
	dir, cookie := ino(&input.InHeader), input.Offset
	for ; cookie < cookieDotDot; cookie++ {
		name := []string{".", ".."}[cookie]
		if !add(fuse.DirEntry{Name: name, Mode: uint32(posix.TypeDir), Ino: uint64(dir), Off: cookie + 1}, nil) {
			return fuse.OK
		}
	}
	for {
		entries, err := f.client.ReadDir(request(cancel), dir, cookie, page)
		if err != nil {
			return status(err)
		}
		for i := range entries {
			e := &entries[i]
			if !add(fuse.DirEntry{Name: e.Name, Mode: uint32(e.Attr.Mode), Ino: uint64(e.Attr.Ino), Off: e.Cookie}, complete(e, dir)) {
				return fuse.OK
			}
			cookie = e.Cookie
		}
		if len(entries) < page {
			return fuse.OK
		}
	}
}

// complete gives the attributes of an entry if it came with all of them.
func complete(e *meta.Entry, dir posix.Ino) *posix.Attr {
	if e.Attr.Ino.Partition() != dir.Partition() {
		return nil
	}
	return &e.Attr
}
