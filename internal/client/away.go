package client

import (
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxAway bounds the files that an away remembers.
const maxAway = 1 << 16

// away remembers the partitions, except their homes, in which this client has written files that were moved.
// These partitions may have a part of the content. The zero value is empty. Its methods may be called
// concurrently.
type away struct {
	mu    sync.Mutex
	files map[posix.Ino][]uint16 // GUARDED_BY mu
	full  bool                   // GUARDED_BY mu; more than maxAway files were written: any file may have content anywhere
}

// wrote records a write to a file while the file was in a partition.
func (a *away) wrote(file posix.Ino, partition uint16) {
	if partition == file.Partition() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch at, known := a.files[file]; {
	case slices.Contains(at, partition):
	case !known && len(a.files) >= maxAway:
		a.full = true
	default:
		if a.files == nil {
			a.files = map[posix.Ino][]uint16{}
		}
		a.files[file] = append(at, partition)
	}
}

// has reports whether this client may have written a file in a partition that is not its home.
func (a *away) has(file posix.Ino, partition uint16) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.full || slices.Contains(a.files[file], partition)
}
