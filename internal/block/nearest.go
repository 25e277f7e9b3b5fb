package block

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"
)

// Nearest is the Store of a partition that several regions replicate: what is put is in
// all of them, and what is read comes from the nearest that has it.
type Nearest struct{ stores []Store }

// NewNearest makes a store of regional ones, at least one, the nearest first.
func NewNearest(stores ...Store) (*Nearest, error) {
	if len(stores) == 0 {
		return nil, errors.New("nearest blocks: no store: name at least one region")
	}
	return &Nearest{stores: stores}, nil
}

// Put implements Store. All regions must take the block, in parallel.
func (n *Nearest) Put(ctx context.Context, id ID, data []byte) error {
	return n.all(ctx, func(ctx context.Context, s Store) error { return s.Put(ctx, id, data) })
}

// Delete implements Store. All regions must answer.
func (n *Nearest) Delete(ctx context.Context, ids []ID) error {
	return n.all(ctx, func(ctx context.Context, s Store) error { return s.Delete(ctx, ids) })
}

// all does the same on all stores, and gives up with the first error.
func (n *Nearest) all(ctx context.Context, do func(context.Context, Store) error) error {
	if len(n.stores) == 1 {
		return do(ctx, n.stores[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range n.stores {
		g.Go(func() error { return do(ctx, s) })
	}
	return g.Wait()
}

// Get implements Store. ErrNotFound and ErrCorrupt mean that all regions were asked.
func (n *Nearest) Get(ctx context.Context, id ID, into []byte) ([]byte, error) {
	var lost, failed error
	for _, s := range n.stores {
		data, err := s.Get(ctx, id, into)
		switch {
		case err == nil || ctx.Err() != nil:
			return data, err
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNotFound) && lost == nil:
			lost = err
		case !errors.Is(err, ErrNotFound):
			failed = err
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("get block %v from %d regions: %w: %w", id, len(n.stores), ErrUnavailable, failed)
	}
	return nil, lost
}

// Range implements Store: the blocks of all regions.
func (n *Nearest) Range(ctx context.Context, from, to ID) iter.Seq2[ID, error] {
	all := make([]iter.Seq2[ID, error], len(n.stores))
	for i, s := range n.stores {
		all[i] = s.Range(ctx, from, to)
	}
	return merge(all)
}
