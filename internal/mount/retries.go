package mount

import (
	"sync"
	"time"
)

// retryWithin is a generous bound of the time from an ESTALE to the kernel's retry.
const retryWithin = 100 * time.Millisecond

// retries distinguishes first opens from the kernel's retries after an ESTALE. Both come from the same
// thread, which does nothing between them.
type retries struct {
	mu      sync.Mutex
	refused map[uint32]time.Time // time at which a thread got ESTALE
}

// isOne reports whether an open by thread is a retry. If it is not, the caller returns ESTALE, and isOne
// expects the retry.
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
