package region

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/block"
)

// Sync implements block.Syncer for the region. The first call asks the servers. After a Sync that succeeded,
// the next one asks them only if there was a put of which no reply has confirmed that the copies are on disk.
func (r *Remote) Sync(ctx context.Context) error {
	return r.unsynced.Sync(func() error { return r.ask(ctx, []byte{byte(opSync)}) })
}

// sync writes the blocks of all servers of the region to their disks, so that they survive a loss of power.
// It does not wait for the last r-1 servers. Each block has copies on r servers, so one of them at least has
// its copy on disk, and repair restores the others from it. The flushes of the last servers continue.
func (n *Node) sync(ctx context.Context) error {
	v := n.view.Load()
	down, errs := n.down(), make(chan error, len(v.servers))
	for _, server := range v.servers {
		n.stragglers.Go(func() {
			if slices.Contains(down, server) {
				errs <- fmt.Errorf("storage server %d is down: %w", server, block.ErrUnavailable)
				return
			}
			errs <- n.flushAt(ctx, server)
		})
	}
	var failed []error
	for synced := 0; synced+len(failed) < len(v.servers); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-errs:
			if err != nil {
				failed = append(failed, err)
				continue
			}
			if synced++; synced > len(v.servers)-v.copies {
				return nil
			}
		}
	}
	return fmt.Errorf("sync blocks: %d of %d storage servers have not: %w", len(failed), len(v.servers), errors.Join(failed...))
}
