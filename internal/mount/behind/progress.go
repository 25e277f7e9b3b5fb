package behind

import (
	"sync"
	"time"
)

// progress notices that batches wait and none is ordered. The zero value has no batches. Its methods may be
// called concurrently.
type progress struct {
	mu      sync.Mutex
	waiting int       // GUARDED_BY mu; sealed batches that are not ordered
	moved   time.Time // GUARDED_BY mu; when the last batch was ordered, or when the first of waiting was sealed
	failing bool      // GUARDED_BY mu; the last batch that ended has failed
}

// began records a sealed batch.
func (p *progress) began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == 0 && !p.failing {
		p.moved = time.Now()
	}
	p.waiting++
}

// ended records the end of a batch, which was ordered or has failed.
func (p *progress) ended(ordered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	p.failing = !ordered
	if ordered {
		p.moved = time.Now()
	}
}

// count returns the number of batches that wait.
func (p *progress) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// isStuck reports whether batches wait or have failed, and none was ordered for a time.
func (p *progress) isStuck(most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (p.waiting > 0 || p.failing) && time.Since(p.moved) > most
}
