package block

import (
	"context"
	"errors"
)

// Batcher is a Store that stores several small blocks at about the price of one.
type Batcher interface {
	// PutAll stores blocks as Put does. After an error some of them may be stored, and the caller puts each.
	PutAll(ctx context.Context, blocks []Block) error
}

// PutAll calls Batcher.PutAll of a store. It returns errors.ErrUnsupported for a store that is no Batcher.
func PutAll(ctx context.Context, s Store, blocks []Block) error {
	if s, ok := s.(Batcher); ok {
		return s.PutAll(ctx, blocks)
	}
	return errors.ErrUnsupported
}

// PutAll implements Batcher.
func (c *Cached) PutAll(ctx context.Context, blocks []Block) error {
	if err := PutAll(ctx, c.store, blocks); err != nil {
		return err
	}
	for i := range blocks {
		c.wrote(&blocks[i])
	}
	return nil
}

// PutAll implements Batcher, for one region.
func (n *Nearest) PutAll(ctx context.Context, blocks []Block) error {
	if len(n.stores) > 1 {
		return errors.ErrUnsupported
	}
	return PutAll(ctx, n.stores[0], blocks)
}
