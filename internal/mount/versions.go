package mount

import (
	"sync"

	"github.com/globalfs/globalfs/internal/posix"
)

// version distinguishes contents of a file: every change of the content changes the ctime.
type version struct {
	mtime, ctime posix.Time
	size         uint64
}

func versionOf(a *posix.Attr) version { return version{a.Mtime, a.Ctime, a.Size} }

// versions has, for each file that the kernel remembers, its version at the last open. If the version is the
// same at the next open, all pages that the kernel has read since are of this version, and the kernel may
// keep them.
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
