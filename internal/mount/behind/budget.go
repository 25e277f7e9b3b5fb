package behind

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// budget bounds the content in memory, and the number of blocks that are being stored. Far content
// (Config.IsFar) has at most half of the memory, and its own blocks. So while the servers of other regions do
// not answer, and far content waits, near content still has room.
type budget struct {
	most    int64 // the whole memory in bytes
	all     *semaphore.Weighted
	far     *semaphore.Weighted
	staging map[bool]chan struct{} // by far: holds a token for each block that is being stored
}

func newBudget(most int64) budget {
	return budget{
		most: most, all: semaphore.NewWeighted(most), far: semaphore.NewWeighted(most / 2),
		staging: map[bool]chan struct{}{false: make(chan struct{}, maxStaging), true: make(chan struct{}, maxStaging)},
	}
}

// takes reports whether n bytes can be acquired at all.
func (b *budget) takes(n int64, far bool) bool { return n <= b.most && (!far || n <= b.most/2) }

// tryAcquire reports whether n bytes were free.
func (b *budget) tryAcquire(n int64, far bool) bool {
	if far && !b.far.TryAcquire(n) {
		return false
	}
	if b.all.TryAcquire(n) {
		return true
	}
	if far {
		b.far.Release(n)
	}
	return false
}

// acquire waits for n bytes.
func (b *budget) acquire(ctx context.Context, n int64, far bool) error {
	if far {
		if err := b.far.Acquire(ctx, n); err != nil {
			return err
		}
	}
	err := b.all.Acquire(ctx, n)
	if err != nil && far {
		b.far.Release(n)
	}
	return err
}

// release frees n bytes.
func (b *budget) release(n int64, far bool) {
	b.all.Release(n)
	if far {
		b.far.Release(n)
	}
}
