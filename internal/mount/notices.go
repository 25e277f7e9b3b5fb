package mount

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxNotices bounds the names that wait until the kernel has heard of them. Of further ones it does not hear: it
// believes them for Config.CacheTime.
const maxNotices = 1 << 12

// notices tell the kernel of names that other mounts have changed. The kernel takes the lock of the directory for
// that, which a request that waits for an answer may hold. So a goroutine of its own tells, and nothing waits for it.
type notices struct {
	kernel *serve.Kernel
	giving atomic.Int64 // requests under way whose answers give names

	mu      sync.Mutex
	waiting []client.Name // GUARDED_BY mu
	runs    bool          // GUARDED_BY mu; the goroutine
	closed  bool          // GUARDED_BY mu
}

// noticeAgain is the time after which a name is told again, if an answer under way may have given the old state
// meanwhile. An answer is written long before.
const noticeAgain = 2 * time.Millisecond

// give counts a request whose answer gives names. The caller calls the result when it has the answer.
func (n *notices) give() (given func()) {
	n.giving.Add(1)
	return func() { n.giving.Add(-1) }
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

// run tells until nothing is left.
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
		again := n.tell(batch)
		if len(again) > 0 {
			time.AfterFunc(noticeAgain, func() { n.tell(again) })
		}
	}
}

// tell tells the kernel, and returns the names that are to be told again.
func (n *notices) tell(names []client.Name) (again []client.Name) {
	for _, at := range names {
		n.kernel.ExpireEntry(uint64(at.Dir), at.Name)
		if n.giving.Load() > 0 {
			again = append(again, at)
		}
	}
	return again
}

// close ends the notices: those that wait are dropped.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.waiting = true, nil
}
