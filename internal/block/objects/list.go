package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/globalfs/globalfs/internal/block"
)

// page is the most objects in one request to list or delete, a limit of S3.
const page = 1000

// Range implements block.Store. It holds one page of ids.
func (s *Store) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	return func(yield func(block.ID, error) bool) {
		first := s.key(from)
		for after := first[:len(first)-1]; ; { // less than first, and at most 15 ids before it
			keys, err := s.list(ctx, after)
			for _, key := range keys {
				id, ok := s.id(key)
				if bytes.Compare(id[:], to[:]) > 0 {
					return
				}
				if ok && bytes.Compare(from[:], id[:]) <= 0 && !yield(id, nil) {
					return
				}
			}
			if err != nil {
				yield(block.ID{}, err)
				return
			}
			if len(keys) < page {
				return
			}
			after = keys[page-1]
		}
	}
}

// list gives the keys of one page after a key.
func (s *Store) list(ctx context.Context, after string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	owner := false
	keys := make([]string, 0, page)
	for o := range s.core.ListObjectsIter(limited, s.config.Bucket, minio.ListObjectsOptions{
		Prefix: s.prefix, Recursive: true, StartAfter: after, MaxKeys: page, FetchOwner: &owner,
	}) {
		if o.Err != nil {
			return nil, errors.Join(ctx.Err(), unavailable(s.translate(limited, "list blocks", o.Err)))
		}
		if keys = append(keys, o.Key); len(keys) == page {
			return keys, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return keys, unavailable(limited.Err()) // the library ends quietly with its context
}

// Delete implements block.Store. Blocks may be deleted in part if it fails.
func (s *Store) Delete(ctx context.Context, ids []block.ID) error {
	for some := range slices.Chunk(ids, page) {
		if err := s.remove(ctx, some); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// remove deletes one page of blocks.
func (s *Store) remove(ctx context.Context, ids []block.ID) error {
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	results, err := s.core.RemoveObjectsWithIter(limited, s.config.Bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, id := range ids {
			if !yield(minio.ObjectInfo{Key: s.key(id)}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return s.translate(limited, "delete blocks", err)
	}
	for result := range results {
		if err := s.translate(limited, "delete "+result.ObjectName, result.Err); err != nil && !errors.Is(err, block.ErrNotFound) {
			return errors.Join(ctx.Err(), unavailable(err))
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if limited.Err() != nil {
		return unavailable(fmt.Errorf("delete %d blocks: %w", len(ids), limited.Err()))
	}
	return nil
}
