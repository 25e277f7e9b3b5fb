package mount

import (
	"sync"
	"time"
)

// retryWithin is how long after an ESTALE the kernel has tried again, generously.
const retryWithin = 100 * time.Millisecond

// retries tells first opens from those that the kernel tries again after an ESTALE. Both come from
// the same thread, which does nothing between them.
type retries struct {
	mu      sync.Mutex
	refused map[uint32]time.Time // GUARDED_BY mu; when a thread was given ESTALE
}

// isOne reports whether an open that thread tries is a retry. If not, it will be given ESTALE.
func (r *retries) isOne(thread uint32) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.refused[thread]; ok && now.Sub(last) < retryWithin {
		delete(r.refused, thread)
		return true
	}
	for other, last := range r.refused {
		if now.Sub(last) >= retryWithin {
			delete(r.refused, other)
		}
	}
	r.refused[thread] = now
	return false
}
