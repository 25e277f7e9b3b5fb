package backup

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
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
// ReadState reads the saved state of a partition into a store. The backup must be of the cluster with an
// identity.
func (r *Repository) ReadState(ctx context.Context, id, identity string, partition uint16, keys *kv.Store) (*Manifest, error) {
	m, err := r.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Identity != identity {
		return nil, fmt.Errorf("%s: backup %s is of the cluster that was created at %s, and the directories are of the one that was created at %s: give a backup of that one", r.where, m.ID, m.Identity, identity)
	}
	i := slices.IndexFunc(m.Partitions, func(p Partition) bool { return p.ID == partition })
	if i < 0 {
		return nil, fmt.Errorf("%s: backup %s has no partition %d: give another backup", r.where, m.ID, partition)
	}
	return m, r.load(ctx, &m.Partitions[i], keys)
}

// ReadBlock reads a block, and verifies it.
func (r *Repository) ReadBlock(ctx context.Context, id posix.BlockID) ([]byte, error) {
	return r.block(ctx, id)
}

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
