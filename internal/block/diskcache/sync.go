package diskcache

import (
	"context"

	"github.com/globalfs/globalfs/internal/block"
)

// Sync implements block.Syncer. Blocks that are only in the cache need not survive.
func (d *Store) Sync(ctx context.Context) error { return block.Sync(ctx, d.store) }
