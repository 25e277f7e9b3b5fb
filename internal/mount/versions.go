package mount

import (
	"sync"

	"github.com/globalfs/globalfs/internal/posix"
)

// version distinguishes contents of a file: every change of them sets the time of change.
type version struct {
	mtime, ctime posix.Time
	size         uint64
}

func versionOf(a *posix.Attr) version { return version{a.Mtime, a.Ctime, a.Size} }

// versions remembers each file's version when it was opened last, as long as the kernel remembers
// the file. If it is still the same at the next open, all pages that the kernel has read
// meanwhile are of this version too and may stay.
type versions struct {
	mu     sync.Mutex
	opened map[posix.Ino]version // GUARDED_BY mu
}

// same records the version that is opened now and reports whether the last open had the same version.
func (v *versions) same(a *posix.Attr) bool {
	now := versionOf(a)
	v.mu.Lock()
	defer v.mu.Unlock()
	last, ok := v.opened[a.Ino]
	v.opened[a.Ino] = now
	return ok && last == now
}

func (v *versions) forget(i posix.Ino) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.opened, i)
}
