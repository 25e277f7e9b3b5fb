package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/posix"
)

// Persister are the operations that wait for the disks of the servers.
type Persister struct {
	common
	blocks *Blocks
}

// Persist returns when all these updates survive a loss of power of all servers: those that this client has
// written, in all partitions that answer, and those that it has seen of the partition of an inode. EIO:
// Persist cannot guarantee that, for example because all replicas of a partition have lost power before. With
// servers that keep their logs in memory Persist does not wait.
//
// Persist depends on the partitions that the inode is in, or in which this client has written it. If others
// do not answer, it waits for them for 5 s, and later calls do not wait until they answer again
// (route.BestEffort).
func (c *Persister) Persist(ctx context.Context, ino posix.Ino) error {
	at, err := c.router.At(ino)
	if err != nil {
		return err
	}
	return c.persist(ctx, c.seenOf(ino.Partition(), at), func(partition uint16) bool {
		return partition == ino.Partition() || partition == at || c.blocks.away.has(ino, partition)
	})
}

// PersistAll is like Persist, for all updates that this client has written and seen, in all partitions. It
// waits for all partitions.
func (c *Persister) PersistAll(ctx context.Context) error {
	var all []uint16
	for id := range c.router.Partitions() {
		all = append(all, uint16(id))
	}
	return c.persist(ctx, c.seenOf(all...), everywhere)
}

// everywhere is true for all partitions.
func everywhere(uint16) bool { return true }

// seenOf returns what the client has seen of some partitions. Persist need not wait for later changes of
// others.
func (c *Persister) seenOf(partitions ...uint16) map[uint16]ask.Seen {
	seen := make(map[uint16]ask.Seen, len(partitions))
	for _, id := range partitions {
		seen[id] = c.router.Seen(id)
	}
	return seen
}

// finishTimeout bounds Finish.
const finishTimeout = 10 * time.Second

// Finish calls PersistAll before Close, unless the client is suspended. It logs a warning if data may not be
// on disk.
func (c *Persister) Finish() {
	if c.router.Suspended() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	if err := c.persist(ctx, nil, everywhere); err != nil {
		c.notices.Warn("unmounted, but some written data may not be on disk: a majority of a partition's replicas, or storage servers, did not confirm it; a loss of power of all servers could lose it",
			"error", err)
	}
}

// Losses counts the events in which answered and not yet persisted updates of this client may have been lost.
func (c *Persister) Losses() uint64 { return c.router.Losses() + c.losses.events() }

// LossesOf counts those of these events that concern a file or directory. It is 0 for a mount that has lost
// nothing.
func (c *Persister) LossesOf(ino posix.Ino) uint64 { return c.router.Losses() + c.losses.of(ino) }

// Drain returns when all changes that were answered are ordered.
func (c *Persister) Drain(ctx context.Context) error {
	return c.outcome(c.router.delegations.drain(ctx, false))
}

// Delegates reports whether the client may hold inodes exclusively.
func (c *Persister) Delegates() bool { return c.router.delegations != nil }

// Outlived reports whether the client has a Journal, and so uses the names of requests (WithRequest).
func (c *Persister) Outlived() bool {
	d := c.router.delegations
	return d != nil && d.journal != nil
}

// GiveBack is like Drain. When it has returned nil, the servers know that the client, and a process that it
// continues, hold no directory.
func (c *Persister) GiveBack(ctx context.Context) error {
	return c.outcome(c.router.delegations.giveBackAll(ctx))
}

// persist makes all updates of this client survive, and the states in seen. It depends only on the partitions
// that it needs.
func (c *Persister) persist(ctx context.Context, seen map[uint16]ask.Seen, needs func(partition uint16) bool) error {
	ctx, cancel := c.router.Operation(ctx)
	defer cancel()
	if err := c.router.delegations.drain(ctx, true); err != nil {
		return c.outcome(err)
	}
	g, waiting := errgroup.WithContext(ctx)
	for _, partition := range route.Unpersisted(c.router.Router, seen) {
		if needs(partition) {
			g.Go(func() error { return c.router.Persist(waiting, partition, seen[partition]) })
		} else {
			g.Go(func() error { return route.PersistBeside(waiting, c.router.Router, partition) })
		}
	}
	for id, s := range c.blocks.stores.All() {
		sync := func(ctx context.Context) error {
			return c.blocks.persist(ctx, func() error { return s.sync(ctx) })
		}
		switch {
		case !s.unsynced.Any():
		case needs(uint16(id)) || s.inherited.Load():
			g.Go(func() error { return sync(waiting) })
		default:
			g.Go(func() error {
				waited, err := s.beside.Do(waiting, c.router.Go, sync)
				if !waited {
					c.notices.Rarely(fmt.Sprint("sync beside ", id), "storage servers of a partition do not answer: fsync of files in other partitions does not cover the content that this mount has stored there; check that they run and can be reached",
						"partition", id)
				}
				return err
			})
		}
	}
	return c.outcome(g.Wait())
}

// written is a block store that knows whether blocks were put that may not be on disk yet.
type written struct {
	block.Store
	unsynced block.Unsynced
	beside   route.BestEffort // sync of an operation that does not depend on this store
	// inherited means that the previous client may have stored blocks of any file that are not synced.
	inherited atomic.Bool
}

// Put implements block.Store.
func (w *written) Put(ctx context.Context, b block.Block) error {
	err := w.Store.Put(ctx, b)
	w.unsynced.Add(1)
	return err
}

// PutAll implements block.Batcher.
func (w *written) PutAll(ctx context.Context, blocks []block.Block) error {
	err := block.PutAll(ctx, w.Store, blocks)
	w.unsynced.Add(len(blocks))
	return err
}

// sync returns when all blocks that were put survive a loss of power.
func (w *written) sync(ctx context.Context) error {
	err := w.unsynced.Sync(func() error { return block.Sync(ctx, w.Store) })
	if err == nil {
		w.inherited.Store(false)
	}
	return err
}
