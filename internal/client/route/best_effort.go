package route

import (
	"context"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
)

// Times of BestEffort.
const (
	bestEffortTime    = 5 * time.Second  // how long an operation waits at most
	bestEffortLeast   = time.Second      // how long it waits at least, unless it ends
	bestEffortAttempt = 30 * time.Second // how long an attempt in the background takes at most
	bestEffortAgain   = time.Second      // between two attempts
)

// BestEffort runs work that makes the result of an operation better, but on which the operation does not
// depend, such as an fsync of the updates in another partition. An operation waits for the work. If the work
// takes longer than bestEffortTime, or than half of the time of the operation, the operation continues
// without it. From then on operations do not wait, and the work is repeated in the background. When it has
// succeeded, or has failed for another reason than silence, operations wait for it again. The zero value is
// ready for use. Its methods may be called concurrently.
type BestEffort struct {
	mu   sync.Mutex
	late bool // GUARDED_BY mu; the work took too long, and is repeated in the background
}

// Do runs work, which may be called several times and by several goroutines. background runs a function in a
// goroutine of the client. waited is false if Do did not wait for the end of work; then err is nil.
func (b *BestEffort) Do(ctx context.Context, background func(func(life context.Context)), work func(ctx context.Context) error) (waited bool, err error) {
	if b.isLate() {
		return false, nil
	}
	most := bestEffortTime
	if end, bounded := ctx.Deadline(); bounded {
		most = min(most, max(time.Until(end)/2, bestEffortLeast))
	}
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := work(bounded); err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return true, err
	}
	if b.becomesLate() {
		background(func(life context.Context) { b.repeat(life, work) })
	}
	return false, nil
}

func (b *BestEffort) isLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late
}

// becomesLate reports whether the caller must repeat the work in the background.
func (b *BestEffort) becomesLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.late
	b.late = true
	return !before
}

// repeat runs work until it is answered, or life ends.
func (b *BestEffort) repeat(life context.Context, work func(ctx context.Context) error) {
	for {
		attempt, cancel := context.WithTimeout(life, bestEffortAttempt)
		err := work(attempt)
		answered := err == nil || attempt.Err() == nil // an operation reports another error than silence
		cancel()
		if answered || pause.For(life, bestEffortAgain) != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = false
}
