package client

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// parallel bounds the number of blocks that one operation transfers at the same time.
const parallel = 8

// Blocks are the block stores of all partitions.
type Blocks struct {
	common
	stores   route.ByPartition[*written]
	away     away
	bringing chan struct{} // one token for each block that is being copied to the partition of its moved file
}

func newBlocks(c common) *Blocks {
	b := &Blocks{common: c, bringing: make(chan struct{}, parallel)}
	b.grow(c.cfg.Cluster)
	return b
}

// grow adds the stores of the partitions that a cluster has and b lacks.
func (b *Blocks) grow(cluster *topology.Cluster) {
	err := b.stores.Grow(len(cluster.Partitions), func(i int) (*written, error) {
		w := &written{Store: b.cfg.Blocks(uint16(i))}
		if b.cfg.Resume != nil {
			w.unsynced.Add(1) // the previous client may have stored blocks that are not synced
			w.inherited.Store(true)
		}
		return w, nil
	})
	invariant.Check(err == nil, "stores of blocks: %v", err)
}

// BlockStore returns the store of a partition's blocks, in all its regions.
func (b *Blocks) BlockStore(partition uint16) (block.Store, error) {
	if err := b.has(partition); err != nil {
		return nil, err
	}
	return b.stores.All()[partition], nil
}

// HasBlock reports whether a block of a file in a partition can be read.
func (b *Blocks) HasBlock(ctx context.Context, partition uint16, id posix.BlockID) (bool, error) {
	if err := b.has(partition); err != nil {
		return false, err
	}
	ctx, cancel := b.router.Operation(ctx)
	defer cancel()
	_, _, err := b.read(ctx, partition, id, nil)
	if errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt) {
		return false, nil
	}
	return err == nil, b.outcome(err)
}

// fetch returns a block of a file that is in a partition. If the block came from another partition's store,
// fetch copies it to the store of this partition for the next reader (T 3.8).
func (b *Blocks) fetch(ctx context.Context, partition uint16, id posix.BlockID, into []byte) ([]byte, error) {
	var data []byte
	var from uint16
	err := b.persist(ctx, func() (err error) {
		data, from, err = b.read(ctx, partition, id, into)
		return err
	})
	if err == nil && from != partition {
		b.bring(partition, id, data)
	}
	return data, err
}

// Pauses between attempts at storage that does not answer. The actual pause is random, between half of the
// value and the value.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// put puts a block into the store of its partition.
func (b *Blocks) put(ctx context.Context, x block.Block) error {
	store := b.stores.All()[x.ID.Partition()]
	return b.persist(ctx, func() error { return store.Put(ctx, x) })
}

// putAll puts blocks of one partition into its store with one request, if that is possible (block.Batcher).
func (b *Blocks) putAll(ctx context.Context, all []block.Block) error {
	return block.PutAll(ctx, b.stores.All()[all[0].ID.Partition()], all)
}

// persist calls try until it succeeds, fails for a permanent reason, or ctx ends. So a restart of a server
// does not fail a write.
func (b *Blocks) persist(ctx context.Context, try func() error) error {
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		err := try()
		if err == nil || isFinal(err) {
			return err
		}
		b.notices.Rarely("storage", "storage servers do not answer: trying again; check that they run and can be reached", "error", err)
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return err
		}
	}
}

// isFinal reports whether a retry at the block store would give the same error.
func isFinal(err error) bool {
	for _, final := range []error{block.ErrNotFound, block.ErrCorrupt, block.ErrNoSpace, block.ErrConflict, block.ErrForbidden, block.ErrClosed} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// read reads a block of a file that is in a partition. It tries the store of this partition, with the blocks
// that wait in a log for this store. If the block is missing there, or the store does not answer, it tries
// the store of the partition for which the block was written. It returns the partition of the store that had
// the block.
func (b *Blocks) read(ctx context.Context, partition uint16, id posix.BlockID, into []byte) (data []byte, from uint16, err error) {
	if data := b.router.waiting.get(id); data != nil {
		return data, partition, nil
	}
	data, err = b.stores.All()[partition].Get(ctx, id, into[:0:len(into)])
	if err == nil || ctx.Err() != nil {
		return data, partition, err
	}
	from = id.Partition()
	if b.has(from) != nil || from == partition {
		return nil, partition, err
	}
	data, there := b.stores.All()[from].Get(ctx, id, into[:0:len(into)])
	if there != nil && !errors.Is(err, block.ErrNotFound) {
		return nil, partition, err
	}
	return data, from, there
}

// bring copies a block to the store of a partition in the background. It does nothing if parallel copies are
// under way, because readers can do without the copy.
func (b *Blocks) bring(partition uint16, id posix.BlockID, data []byte) {
	select {
	case b.bringing <- struct{}{}:
	default:
		return
	}
	copied := block.New(id, data)
	b.router.Go(func(life context.Context) {
		defer func() { <-b.bringing }()
		ctx, cancel := context.WithTimeout(life, b.cfg.Timeout)
		defer cancel()
		if err := b.stores.All()[partition].Put(ctx, copied); err != nil {
			b.notices.Debug("a block of a file that has moved could not be brought to it: readers fetch it from where it is",
				"partition", partition, "block", id, "error", err)
		}
	})
}
