package client

import (
	"context"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// What a collector needs, which deletes blocks that nobody needs:
//
//   - What was dropped is in a queue in the partition that dropped it, and in one of the block's home: DroppedBlocks. Each
//     of them deletes the copies in its own store, and then says so: Collected. A crash in between repeats the deletion.
//   - What was never written, and copies that came to a store late, only a sweep over the store finds. It asks the home
//     of each block (its BlockID.Partition, not the partition whose store it was found in): Garbage.

// BlockStore gives the store of a partition's blocks, in all its regions.
func (c *Client) BlockStore(partition uint16) (block.Store, error) {
	p, err := c.partition(partition)
	if err != nil {
		return nil, posix.EINVAL
	}
	return p.blocks, nil
}

// DroppedBlocks gives the oldest blocks in a partition's queue that were dropped before a time, at most meta.MaxIDs,
// in the order of their places: those behind the place after, which is 0 at the start. Beside them it gives how much there is of
// what in the partition. What it gives stays true, however old: nobody needs these blocks, ever.
func (c *Client) DroppedBlocks(ctx context.Context, partition uint16, after uint64, before time.Time) ([]meta.Dropped, meta.BlockUsage, error) {
	p, err := c.partition(partition)
	if err != nil {
		return nil, meta.BlockUsage{}, posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	a, err := c.askIn(ctx, p, &meta.Command{Op: meta.OpQueue, Offset: after, Length: meta.MaxIDs, Time: posix.Time(before.UnixNano())})
	if err != nil {
		return nil, meta.BlockUsage{}, c.outcome(err)
	}
	usage, page, err := meta.DecodeQueue(a.Data)
	return page, usage, c.outcome(err)
}

// Collected tells a partition that the copies in its store of some of the blocks in its queue are deleted, and gives
// of how many that was new. What is not in the queue is left alone. After an error some may have been taken out: say all again.
func (c *Client) Collected(ctx context.Context, partition uint16, ids []posix.BlockID) (count uint64, err error) {
	p, err := c.partition(partition)
	if err != nil {
		return 0, posix.EINVAL
	}
	for some := range slices.Chunk(ids, meta.MaxIDs) {
		ctx, cancel := c.operation(ctx)
		r, err := c.applyIn(ctx, parties{ask: p}, &meta.Command{Op: meta.OpCollected, Blocks: names(some)})
		cancel()
		if err != nil {
			return count, c.outcome(err)
		}
		count += r.Number
	}
	return count, nil
}

// Garbage reports of each of the blocks, which were written for partition home and are in some store already, whether
// nobody needs it, nor ever will: whether it can be deleted at once, in all stores. It asks a quorum, whatever
// Config.Linearizable says. EINVAL if one of them has another home.
func (c *Client) Garbage(ctx context.Context, home uint16, ids []posix.BlockID) ([]bool, error) {
	p, err := c.partition(home)
	if err != nil || slices.ContainsFunc(ids, func(id posix.BlockID) bool { return id.Partition() != home }) {
		return nil, posix.EINVAL
	}
	all := make([]bool, 0, len(ids))
	for some := range slices.Chunk(ids, meta.MaxIDs) {
		ctx, cancel := c.operation(ctx)
		a, err := c.askAs(ctx, p, &meta.Command{Op: meta.OpGarbage, Blocks: names(some)}, true)
		cancel()
		if err != nil {
			return nil, c.outcome(err)
		}
		garbage, err := meta.DecodeGarbage(a.Data, len(some))
		if err != nil {
			return nil, c.outcome(err)
		}
		all = append(all, garbage...)
	}
	return all, nil
}

// names gives blocks for a command that only names them.
func names(ids []posix.BlockID) []meta.Block {
	blocks := make([]meta.Block, len(ids))
	for i, id := range ids {
		blocks[i].ID = id
	}
	return blocks
}
