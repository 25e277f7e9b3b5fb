package backup

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/varint"
)

// A chunk ends behind a key with a hash that only one of meanKeys keys has, or when it is full. So a change
// of a key changes one chunk, and the borders of the others stay.
const (
	meanKeys = 512
	maxChunk = 4 << 20
)

func endsChunk(key []byte) bool {
	h := fnv.New32a()
	_, _ = h.Write(key)
	return h.Sum32()%meanKeys == 0
}

// save stores all keys of a store as chunks.
func (r *Repository) save(ctx context.Context, keys *kv.Store, p *Partition) (added uint64, err error) {
	var chunk []byte
	flush := func() error {
		hash, more, err := r.putChunk(ctx, chunk)
		p.Chunks, p.Bytes, added = append(p.Chunks, hash), p.Bytes+uint64(len(chunk)), added+more
		chunk = chunk[:0]
		return err
	}
	for key, value := range keys.Scan(nil, nil) {
		p.Keys++
		chunk = varint.AppendBytes(varint.AppendBytes(chunk, key), value)
		if endsChunk(key) || len(chunk) >= maxChunk {
			if err := flush(); err != nil {
				return added, err
			}
		}
	}
	if err := keys.Err(); err != nil {
		return added, err
	}
	if len(chunk) > 0 {
		err = flush()
	}
	return added, err
}

// load puts the keys of a partition into an empty store.
func (r *Repository) load(ctx context.Context, p *Partition, keys *kv.Store) error {
	count := uint64(0)
	for _, hash := range p.Chunks {
		b, err := r.chunk(ctx, hash)
		if err != nil {
			return err
		}
		for in := varint.NewReader(b); in.Len() > 0; count++ {
			key, value := in.Bytes(), in.Bytes()
			if err := in.Err(); err != nil {
				return fmt.Errorf("%s: %s: %w", r.where, chunkName(hash), err)
			}
			keys.Set(key, value)
		}
		if err := keys.Commit(false); err != nil {
			return err
		}
	}
	if count != p.Keys {
		return fmt.Errorf("%s: partition %d has %d keys, and %d were saved: use another backup", r.where, p.ID, count, p.Keys)
	}
	return nil
}
