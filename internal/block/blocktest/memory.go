package blocktest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
)

// Memory is a region.Disk in memory with a limited size. It can lose and spoil copies, and it can be slow or
// hang. It is the simplest correct store, for tests of packages that use stores.
type Memory struct {
	mu     sync.Mutex
	delay  time.Duration       // GUARDED_BY mu; of each call
	hung   chan struct{}       // GUARDED_BY mu; not nil: calls wait until it is closed
	blocks map[block.ID][]byte // GUARDED_BY mu
	bad    map[block.ID]bool   // GUARDED_BY mu
	size   int                 // bytes
	used   int                 // GUARDED_BY mu; bytes
	failed error               // GUARDED_BY mu
}

// Big is a size that no test fills, in bytes.
const Big = 1 << 30

// NewMemory makes a store for size bytes.
func NewMemory(size int) *Memory {
	return &Memory{blocks: make(map[block.ID][]byte), bad: make(map[block.ID]bool), size: size}
}

// Spoil makes the copy of a block bad, if there is one: Get returns ErrCorrupt until it is put again.
func (m *Memory) Spoil(id block.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocks[id] != nil {
		m.bad[id] = true
	}
}

// Fail makes all calls return err, until err is nil.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = err
}

// Forget makes the copy of a block vanish, as a damaged index does.
func (m *Memory) Forget(id block.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(id)
}

// remove drops a copy. The caller holds mu.
func (m *Memory) remove(id block.ID) {
	m.used -= len(m.blocks[id])
	delete(m.blocks, id)
	delete(m.bad, id)
}

// Lose empties the disk, as a new one in the place of a broken one.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.blocks)
	clear(m.bad)
	m.used = 0
}

// Resize limits the disk to size bytes; more may be on it.
func (m *Memory) Resize(size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size = size
}

// Slow makes each call take a while.
func (m *Memory) Slow(delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delay = delay
}

// Hang makes calls wait for the end of their contexts, until hung is false.
func (m *Memory) Hang(hung bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case hung && m.hung == nil:
		m.hung = make(chan struct{})
	case !hung && m.hung != nil:
		close(m.hung)
		m.hung = nil
	}
}

// Good reports whether there is a good copy of a block, also during other faults of the disk.
func (m *Memory) Good(id block.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks[id] != nil && !m.bad[id]
}

// IDs returns the blocks with copies, good and bad, also during other faults of the disk.
func (m *Memory) IDs() []block.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.blocks), func(a, b block.ID) int { return bytes.Compare(a[:], b[:]) })
}

// enter waits as long as the disk is slow or hangs, and returns the error of all calls at present. The caller
// holds mu afterwards.
func (m *Memory) enter(ctx context.Context) error {
	m.mu.Lock()
	delay, hung := m.delay, m.hung
	m.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.failed
}

// Put implements block.Store.
func (m *Memory) Put(ctx context.Context, b block.Block) error {
	return m.PutAll(ctx, []block.Block{b})
}

// PutAll implements block.Batcher.
func (m *Memory) PutAll(ctx context.Context, blocks []block.Block) error {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	for i := range blocks {
		if err == nil {
			err = m.put(&blocks[i])
		}
	}
	return err
}

// put puts a block. The caller holds mu.
func (m *Memory) put(b *block.Block) error {
	id, data := b.ID, b.Data
	old, ok := m.blocks[id]
	switch {
	case len(data) == 0 || len(data) > block.MaxSize:
		return fmt.Errorf("block %v of %d bytes", id, len(data))
	case !b.IsIntact():
		return fmt.Errorf("block %v has a wrong checksum", id)
	case ok && !m.bad[id] && !bytes.Equal(old, data):
		return block.ErrConflict
	case ok && !m.bad[id]:
		return nil
	case m.used+len(data) > m.size:
		return block.ErrNoSpace
	}
	m.used += len(data) - len(old)
	m.blocks[id] = slices.Clone(data)
	delete(m.bad, id)
	return nil
}

// Get implements block.Store.
func (m *Memory) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	data, ok := m.blocks[id]
	if !ok {
		return nil, block.ErrNotFound
	}
	if m.bad[id] {
		return nil, &block.CorruptError{ID: id, File: "memory"}
	}
	return append(into[:0], data...), nil
}

// Delete implements block.Store.
func (m *Memory) Delete(ctx context.Context, ids []block.ID) error {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	if err != nil {
		return err
	}
	for _, id := range ids {
		m.remove(id)
	}
	return nil
}

// Range implements block.Store.
func (m *Memory) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	return func(yield func(block.ID, error) bool) {
		ids, err := m.ids(ctx, from, to)
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
		if err != nil {
			yield(block.ID{}, err)
		}
	}
}

func (m *Memory) ids(ctx context.Context, from, to block.ID) ([]block.ID, error) {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var ids []block.ID
	for id := range m.blocks {
		if bytes.Compare(from[:], id[:]) <= 0 && bytes.Compare(id[:], to[:]) <= 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b block.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids, nil
}

// Sizes implements region.Disk.
func (m *Memory) Sizes(ctx context.Context, ids []block.ID) ([]uint32, error) {
	err := m.enter(ctx)
	defer m.mu.Unlock()
	sizes := make([]uint32, len(ids))
	for i, id := range ids {
		sizes[i] = uint32(len(m.blocks[id]))
	}
	return sizes, err
}

// Durable implements region.Disk.
func (m *Memory) Durable() bool { return false }

// Usage implements region.Disk.
func (m *Memory) Usage() (total, free uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(m.size), uint64(max(0, m.size-m.used)), m.failed
}
