package route

import (
	"context"
	"sync"
	"time"
)

// Times of BestEffort.
const (
	bestEffortTime  = 5 * time.Second  // how long an operation waits at most
	bestEffortAgain = 30 * time.Second // how long work in the background takes at most
)

// BestEffort runs work that makes the result of an operation better, but that the operation does not need,
// such as an fsync of the updates in other partitions. An operation waits for the work. If the work fails, or
// takes longer than bestEffortTime, the operation continues without it. From then on operations do not wait:
// each one begins the work in the background, unless it is under way there. When the work has succeeded once,
// operations wait for it again. The zero value is ready for use. Its methods may be called concurrently.
type BestEffort struct {
	mu     sync.Mutex
	late   bool // GUARDED_BY mu; the last work has failed, or took too long
	trying bool // GUARDED_BY mu; the work is under way in the background
}

// Do runs work. background runs a function in a goroutine of the client. Do returns an error only if ctx
// ends.
func (b *BestEffort) Do(ctx context.Context, background func(func(life context.Context)), work func(ctx context.Context) error) error {
	if b.isLate() {
		if b.begin() {
			background(func(life context.Context) {
				trying, cancel := context.WithTimeout(life, bestEffortAgain)
				defer cancel()
				b.ended(work(trying))
			})
		}
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, bestEffortTime)
	defer cancel()
	err := work(bounded)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
	return nil
}

func (b *BestEffort) isLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late
}

// begin reports whether the caller must begin the work in the background.
func (b *BestEffort) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.trying
	b.trying = true
	return !before
}

// ended records the end of the work in the background.
func (b *BestEffort) ended(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying, b.late = false, err != nil
}
