package client

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
)

// Persister are the operations that wait for the disks of the servers.
type Persister struct {
	common
	blocks *Blocks
}

// Persist returns when everything survives a loss of power of all servers that this client has written, in
// all partitions, and that it has seen of the partition where an inode is. EIO: it cannot, for example
// because all replicas of a partition have lost power before. With servers whose logs are in memory it
// waits for nothing.
func (c *Persister) Persist(ctx context.Context, ino posix.Ino) error {
	at, err := c.router.At(ino)
	if err != nil {
		return err
	}
	return c.persist(ctx, []uint16{ino.Partition(), at})
}

// PersistAll is Persist of everything that this client has written and seen, in all partitions.
func (c *Persister) PersistAll(ctx context.Context) error {
	var all []uint16
	for id := range c.router.Partitions() {
		all = append(all, uint16(id))
	}
	return c.persist(ctx, all)
}

// finishTimeout bounds Finish.
const finishTimeout = 10 * time.Second

// Finish is PersistAll before Close, unless the client is suspended. It logs what is not known to be on disk.
func (c *Persister) Finish() {
	if c.router.Suspended() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	if err := c.persist(ctx, nil); err != nil {
		c.notices.Warn("unmounted, but not all that was written is known to be on disk: a majority of a partition's replicas, or storage servers, did not say so; a loss of power of all servers could take it",
			"error", err)
	}
}

// Losses counts how often updates of this client may have been lost that were answered, and not yet
// persisted.
func (c *Persister) Losses() uint64 { return c.router.Losses() }

func (c *Persister) persist(ctx context.Context, partitions []uint16) error {
	ctx, cancel := c.router.Operation(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	g.Go(func() error { return c.router.Persist(waiting, partitions) })
	for _, s := range c.blocks.stores {
		g.Go(func() error { return c.blocks.persist(waiting, func() error { return s.sync(waiting) }) })
	}
	return c.outcome(g.Wait())
}

// written is a block store that knows whether blocks were put that may not be on disk yet.
type written struct {
	block.Store
	puts   atomic.Uint64 // that were answered
	synced atomic.Uint64 // of them
}

// Put implements block.Store.
func (w *written) Put(ctx context.Context, b block.Block) error {
	err := w.Store.Put(ctx, b)
	w.puts.Add(1)
	return err
}

// sync returns when all blocks that were put survive a loss of power.
func (w *written) sync(ctx context.Context) error {
	puts := w.puts.Load()
	if w.synced.Load() >= puts {
		return nil
	}
	if err := block.Sync(ctx, w.Store); err != nil {
		return err
	}
	for synced := w.synced.Load(); synced < puts && !w.synced.CompareAndSwap(synced, puts); {
		synced = w.synced.Load()
	}
	return nil
}
