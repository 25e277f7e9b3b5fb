package mount

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/mount/serve"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxNotices bounds the names that wait for their notice to the kernel. There is no notice for further names:
// the kernel caches them for Config.CacheTime.
const maxNotices = 1 << 12

// notices inform the kernel of names that other mounts have changed. For a notice the kernel takes the lock
// of the directory, and a request that waits for an answer may hold this lock. So a separate goroutine sends
// the notices, and no code waits for it.
type notices struct {
	kernel *serve.Kernel
	giving atomic.Int64 // requests under way with names in their answers

	mu      sync.Mutex
	waiting []client.Name // GUARDED_BY mu
	runs    bool          // GUARDED_BY mu; the goroutine
	closed  bool          // GUARDED_BY mu
}

// noticeAgain is the time after which a notice is repeated, if an answer under way may have given the old
// state meanwhile. The answer is written long before.
const noticeAgain = 2 * time.Millisecond

// give counts a request with names in its answer. The caller calls the result when it has the answer.
func (n *notices) give() (given func()) {
	n.giving.Add(1)
	return func() { n.giving.Add(-1) }
}

// add queues a notice for a changed name.
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
		again := n.tell(batch)
		if len(again) > 0 {
			time.AfterFunc(noticeAgain, func() { n.tell(again) })
		}
	}
}

// tell sends notices to the kernel, and returns the names that need a second notice.
func (n *notices) tell(names []client.Name) (again []client.Name) {
	for _, at := range names {
		n.kernel.ExpireEntry(uint64(at.Dir), at.Name)
		if n.giving.Load() > 0 {
			again = append(again, at)
		}
	}
	return again
}

// close ends the notices: waiting notices are dropped.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed, n.waiting = true, nil
}
