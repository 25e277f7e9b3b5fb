package block

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Syncer is a Store that may answer a Put before the block is on disk.
type Syncer interface {
	// Sync returns when all blocks whose Put has returned survive a loss of power.
	Sync(ctx context.Context) error
}

// Sync makes the blocks of a store survive a loss of power. A store that is no Syncer does that in Put.
func Sync(ctx context.Context, s Store) error {
	if s, ok := s.(Syncer); ok {
		return s.Sync(ctx)
	}
	return nil
}

// Unsynced counts the puts of a store that may not be on disk. The zero value has none. Its methods may be
// called concurrently.
type Unsynced struct {
	puts   atomic.Uint64 // puts that were answered
	synced atomic.Uint64 // puts of these that are on disk
}

// Add counts n puts that were answered, and that may not be on disk.
func (u *Unsynced) Add(n int) { u.puts.Add(uint64(n)) }

// Any reports whether there is a put that may not be on disk.
func (u *Unsynced) Any() bool { return u.synced.Load() < u.puts.Load() }

// Sync calls sync, which makes all puts so far survive a loss of power, unless they all do.
func (u *Unsynced) Sync(sync func() error) error {
	puts := u.puts.Load()
	if u.synced.Load() >= puts {
		return nil
	}
	if err := sync(); err != nil {
		return err
	}
	for synced := u.synced.Load(); synced < puts && !u.synced.CompareAndSwap(synced, puts); {
		synced = u.synced.Load()
	}
	return nil
}

// Sync implements Syncer.
func (c *Cached) Sync(ctx context.Context) error { return Sync(ctx, c.store) }

// Sync implements Syncer: it returns when a majority of the regions has its copies on disk.
func (n *Nearest) Sync(ctx context.Context) error {
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	results := make(chan error, len(n.stores))
	for _, s := range n.stores {
		go func() { results <- Sync(asking, s) }()
	}
	done, errs := 0, []error{}
	for range n.stores {
		if err := <-results; err != nil {
			errs = append(errs, err)
		} else if done++; done > len(n.stores)/2 {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("sync blocks: %d of %d regions have: %w", done, len(n.stores), errors.Join(errs...))
}
