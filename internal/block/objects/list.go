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

// page is the maximum number of objects in one request to list or delete, a limit of S3.
const page = 1000

// Range implements block.Store. It holds one page of ids.
func (s *Store) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	return func(yield func(block.ID, error) bool) {
		for found, err := range s.scan(ctx, from, to) {
			if !yield(found.id, err) {
				return
			}
		}
	}
}

// Sizes returns the length of each block in bytes, 0 for an absent block. It lists all blocks between the
// first and the last of ids: they should be near each other.
func (s *Store) Sizes(ctx context.Context, ids []block.ID) ([]uint32, error) {
	sizes := make([]uint32, len(ids))
	if len(ids) == 0 {
		return sizes, nil
	}
	at := make(map[block.ID]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	order := func(a, b block.ID) int { return bytes.Compare(a[:], b[:]) }
	for found, err := range s.scan(ctx, slices.MinFunc(ids, order), slices.MaxFunc(ids, order)) {
		if err != nil {
			return nil, err
		}
		if i, ok := at[found.id]; ok {
			sizes[i] = found.size
		}
	}
	return sizes, nil
}

// listed is a block in a listing.
type listed struct {
	id   block.ID
	size uint32 // bytes
}

// scan returns the blocks from from to to, both included.
func (s *Store) scan(ctx context.Context, from, to block.ID) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		first := s.key(from)
		for after := first[:len(first)-1]; ; { // less than first, and at most 15 ids before it
			objects, err := s.list(ctx, after)
			for _, o := range objects {
				id, ok := s.id(o.Key)
				if bytes.Compare(id[:], to[:]) > 0 {
					return
				}
				size := uint32(min(max(0, o.Size-headerSize), block.MaxSize))
				if ok && bytes.Compare(from[:], id[:]) <= 0 && !yield(listed{id, size}, nil) {
					return
				}
			}
			if err != nil {
				yield(listed{}, err)
				return
			}
			if len(objects) < page {
				return
			}
			after = objects[page-1].Key
		}
	}
}

// list returns the objects of one page after a key.
func (s *Store) list(ctx context.Context, after string) ([]minio.ObjectInfo, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	owner := false
	objects := make([]minio.ObjectInfo, 0, page)
	for o := range s.core.ListObjectsIter(limited, s.config.Bucket, minio.ListObjectsOptions{
		Prefix: s.prefix, Recursive: true, StartAfter: after, MaxKeys: page, FetchOwner: &owner,
	}) {
		if o.Err != nil {
			return nil, errors.Join(ctx.Err(), unavailable(s.translate(limited, "list blocks", o.Err)))
		}
		if objects = append(objects, o); len(objects) == page {
			return objects, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return objects, unavailable(limited.Err()) // the library ends without an error when its context ends
}

// Delete implements block.Store. After a failure some blocks may be deleted.
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
