package route

import (
	"context"
	"sync"
	"time"
)

// Partitions may be added to a cluster while clients use it. A client learns of them from the description of
// the cluster, which it fetches from time to time. If a directory entry names a new partition before, the
// client asks for a new description (Outdated), and the operation waits for it.

const (
	// learnPatience bounds the wait for a description with an unknown partition.
	learnPatience = 5 * time.Second
	// maxNews bounds the number of partitions that may be added at once. Higher numbers are garbage.
	maxNews = 16
)

// Outdated returns a channel that receives when the client has met a partition that its description of the
// cluster lacks.
func (r *Router) Outdated() <-chan struct{} { return r.outdated }

// learn waits until the router knows a partition, if the partition may be a new one. It reports whether the
// router knows it.
func (r *Router) learn(ctx context.Context, id uint16) bool {
	if int(id) >= len(r.partitions.All())+maxNews {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, learnPatience)
	defer cancel()
	for {
		raised := r.learned.next()
		if int(id) < len(r.partitions.All()) {
			return true
		}
		select {
		case r.outdated <- struct{}{}:
		default:
		}
		select {
		case <-raised:
		case <-ctx.Done():
			return false
		case <-r.life().Done():
			return false
		}
	}
}

// signal wakes all goroutines that wait for its next raise. The zero value is ready for use.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // GUARDED_BY mu; nil: none waits
}

// next returns a channel that the next raise closes.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
