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

// What a collector needs, which deletes blocks that nobody needs:
//
//   - What was dropped is in a queue in the partition that dropped it, and in one of the block's home:
//     DroppedBlocks. Each of them deletes the copies in its own store, and then says so: Collected. A crash
//     in between repeats the deletion.
//   - What was never written, and copies that came to a store late, only a sweep over the store finds. It
//     asks the home of each block (its BlockID.Partition, not the partition whose store it was found in):
//     Garbage.

// Collection are the operations of those who delete blocks that are not needed, or look at a whole partition.
type Collection struct {
	common
}

// DroppedBlocks returns the oldest blocks in a partition's queue that were dropped before a time, at most
// meta.MaxIDs, in the order of their places: those behind the place after, which is 0 at the start. Beside
// them it returns how much there is of what in the partition. The answer stays true, however old: nobody
// needs these blocks, ever.
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

// Collected tells a partition that the copies in its store of some of the blocks in its queue are deleted,
// and returns the number of those that were in the queue. After an error some may have been taken out: say
// all again.
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

// Garbage reports of each of the blocks, which were written for partition home and are in some store already,
// whether nobody needs it, nor ever will: whether it can be deleted at once, in all stores. It asks a quorum,
// whatever Config.Linearizable says. EINVAL if one of them has another home.
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

// Scan returns a page of the stored metadata of a partition behind the key after, from the start if that is
// nil, and what the replica that gave it had executed; no pairs at the end. Pages are of one state only if
// all of them were given at the same seen.
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

// blocksOf returns blocks for a command that only names them.
func blocksOf(ids []posix.BlockID) []meta.Block {
	blocks := make([]meta.Block, len(ids))
	for i, id := range ids {
		blocks[i].ID = id
	}
	return blocks
}
