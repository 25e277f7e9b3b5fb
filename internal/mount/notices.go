package mount

import (
	"sync"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxNotices bounds the names that wait for their notice to the kernel. There is no notice for further names:
// the kernel caches them for Config.CacheTime.
const maxNotices = 1 << 12

// notices tell the kernel of names that other mounts have changed. The kernel takes the lock of the directory
// for that. So a goroutine of its own tells, and nothing waits for it. While a request in the directory is
// not answered, its notices are set aside: the answer may give the old state.
type notices struct {
	kernel *serve.Kernel

	mu      sync.Mutex
	waiting []client.Name // GUARDED_BY mu
	runs    bool          // GUARDED_BY mu; the goroutine
	closed  bool          // GUARDED_BY mu
}

// add takes a name that has changed.
func (n *notices) add(dir posix.Ino, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.waiting) >= maxNotices {
		return
	}
	n.waiting = append(n.waiting, client.Name{Dir: dir, Name: name})
	if !n.runs {
		n.runs = true
		go n.run()
	}
}

// run sends notices until the queue is empty.
func (n *notices) run() {
	for {
		n.mu.Lock()
		batch := n.waiting
		n.waiting = nil
		if n.runs = len(batch) > 0 && !n.closed; !n.runs {
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		for _, at := range batch {
			n.kernel.ExpireEntry(at.Dir, at.Name, func() { n.add(at.Dir, at.Name) })
		}
	}
}

// close ends the notices: those that wait are dropped.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.waiting = true, nil
}
