package route

import (
	"sync"
	"sync/atomic"
)

// ByPartition holds a value for each partition of a cluster, to which partitions may be added. The zero value
// is empty. Its methods may be called concurrently.
type ByPartition[T any] struct {
	growing sync.Mutex
	now     atomic.Pointer[[]T]
}

// All returns the values by the numbers of the partitions. The caller must not change the slice.
func (b *ByPartition[T]) All() []T {
	if all := b.now.Load(); all != nil {
		return *all
	}
	return nil
}

// Grow makes the values of the partitions that have none yet, up to a number of partitions. After an error
// nothing is changed.
func (b *ByPartition[T]) Grow(partitions int, of func(partition int) (T, error)) error {
	b.growing.Lock()
	defer b.growing.Unlock()
	was := b.All()
	all := append(make([]T, 0, partitions), was...)
	for i := len(was); i < partitions; i++ {
		value, err := of(i)
		if err != nil {
			return err
		}
		all = append(all, value)
	}
	b.now.Store(&all)
	return nil
}
