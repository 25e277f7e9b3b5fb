package client

import (
	"context"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// The operations of a collector, which deletes the blocks that no file needs:
//
//   - A dropped block is in the queue of the partition that dropped it, and in the queue of the block's home:
//     DroppedBlocks. The collector deletes the copies in the store of each of these partitions, and then
//     reports the deletion: Collected. After a crash between the two steps it repeats the deletion.
//   - Blocks that no file ever contained, and copies that reached a store late, are found only by a sweep
//     over the store. The collector queries the home of each block (its BlockID.Partition, not the partition
//     of the store): Garbage.

// Collection has the operations of collectors, and of readers of a whole partition.
type Collection struct {
	common
}

// DroppedBlocks returns a page of the blocks in a partition's queue that were dropped before a time: at
// most meta.MaxIDs, in the order of the queue, with places above after (0 at the start). It also returns
// the usage of the partition. The answer never becomes wrong: no file will ever need these blocks.
func (c *Collection) DroppedBlocks(ctx context.Context, partition uint16, after uint64, before time.Time) ([]meta.Dropped, meta.BlockUsage, error) {
	if err := c.has(partition); err != nil {
		return nil, meta.BlockUsage{}, err
	}
	cmd := &meta.Command{Op: meta.OpQueue, Offset: after, Length: meta.MaxIDs, Time: posix.Time(before.UnixNano())}
	a, err := c.router.Query(ctx, cmd, route.Partition(partition))
	if err != nil {
		return nil, meta.BlockUsage{}, err
	}
	usage, page, err := meta.DecodeQueue(a.Data)
	return page, usage, c.outcome(err)
}

// Collected informs a partition that the copies of blocks in its store are deleted. It returns the number of
// blocks that were still queued. After an error some of them may have been removed from the queue: call
// Collected again with all ids.
func (c *Collection) Collected(ctx context.Context, partition uint16, ids []posix.BlockID) (count uint64, err error) {
	if err := c.has(partition); err != nil {
		return 0, err
	}
	for some := range slices.Chunk(ids, meta.MaxIDs) {
		a, err := c.router.Update(ctx, &meta.Command{Op: meta.OpCollected, Blocks: blocksOf(some)}, route.Partition(partition))
		if err != nil {
			return count, err
		}
		count += a.Number
	}
	return count, nil
}

// Garbage reports for each block whether it can be deleted from all stores at once, because no file needs it,
// now or later. Call it only for blocks that were found in a store. It returns EINVAL if a block was written
// for another partition than home. Garbage always asks a quorum, even without Config.Linearizable.
func (c *Collection) Garbage(ctx context.Context, home uint16, ids []posix.BlockID) ([]bool, error) {
	if c.has(home) != nil || slices.ContainsFunc(ids, func(id posix.BlockID) bool { return id.Partition() != home }) {
		return nil, posix.EINVAL
	}
	all := make([]bool, 0, len(ids))
	for some := range slices.Chunk(ids, meta.MaxIDs) {
		a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpGarbage, Blocks: blocksOf(some)}, route.Partition(home).Fresh())
		if err != nil {
			return nil, err
		}
		garbage, err := meta.DecodeGarbage(a.Data, len(some))
		if err != nil {
			return nil, c.outcome(err)
		}
		all = append(all, garbage...)
	}
	return all, nil
}

// Scan returns a page of the stored metadata of a partition after a key (nil: from the start), and the number
// of commands that the replica had executed. After the last key the page is empty. Several pages show the
// same state only if seen is the same for all.
func (c *Collection) Scan(ctx context.Context, partition uint16, after []byte) (page []meta.Pair, seen ask.Seen, err error) {
	if err := c.has(partition); err != nil {
		return nil, seen, err
	}
	a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpScan, Data: after, Length: meta.MaxScan}, route.Partition(partition))
	if err == nil {
		page, err = meta.DecodeScan(a.Data)
	}
	return page, a.Seen, c.outcome(err)
}

// blocksOf returns ids as the blocks of a command that uses only their ids.
func blocksOf(ids []posix.BlockID) []meta.Block {
	blocks := make([]meta.Block, len(ids))
	for i, id := range ids {
		blocks[i].ID = id
	}
	return blocks
}
