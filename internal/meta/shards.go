package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Shards are the partitions of one region. A new directory goes to one of them, unless the directory above
// has a rule, by a hash of its parent and its name, so that the directories of a region spread over all
// shards. Files stay with their directory: a create is one command of one partition.
//
// The shards are state of each partition, which it gets at birth. They do not change.

var shardsKey = []byte{prefixShards}

// MaxShards is the most partitions of a region.
const MaxShards = 64

// storeShards stores the shards at the birth of a partition, and returns them. One shard needs no entry.
func storeShards(keys Keys, shards []uint16) []uint16 {
	if len(shards) < 2 {
		return nil
	}
	b := varint.AppendUint(nil, uint64(len(shards)))
	for _, p := range shards {
		b = varint.AppendUint(b, p)
	}
	keys.Set(shardsKey, b)
	return shards
}

// loadShards reads the shards of a stored partition.
func loadShards(keys Keys) (shards []uint16, err error) {
	b := keys.Get(shardsKey)
	if b == nil {
		return nil, nil
	}
	if shards, err = decodeShards(b); err != nil {
		return nil, fmt.Errorf("stored metadata: shards: %w", err)
	}
	return shards, nil
}

func decodeShards(b []byte) (shards []uint16, err error) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		shards = append(shards, r.Uint16())
	}
	return shards, r.Done()
}

// shardsOf checks the stored shards: several, each once, this partition among them.
func (c *checker) shardsOf(_, value []byte) {
	shards, err := decodeShards(value)
	switch {
	case err != nil:
		c.report("shards: %v", err)
	case len(shards) < 2 || len(shards) > MaxShards || !slices.Contains(shards, c.partition) || len(slices.Compact(slices.Sorted(slices.Values(shards)))) < len(shards):
		c.report("partition %d has the shards %v", c.partition, shards)
	}
}

// placeFor gives the partition for a new inode of a type with this name: the rule of the directory decides,
// or else the shards, of a new directory.
func (m *Machine) placeFor(dir posix.Ino, name string, kind posix.Mode) uint16 {
	if r, ok := m.rule(dir); ok {
		return r.Place(m.cfg.Partition, name)
	}
	if kind != posix.TypeDir || len(m.shards) == 0 {
		return m.cfg.Partition
	}
	return ShardOf(m.shards, dir, name)
}

// ShardOf gives the shard of a new directory without a rule.
func ShardOf(shards []uint16, parent posix.Ino, name string) uint16 {
	invariant.Check(len(shards) > 0, "no shards")
	h := uint64(14695981039346656037) // FNV-1a
	for i := range 8 {
		h = (h ^ uint64(parent)>>(8*i)&0xff) * 1099511628211
	}
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return shards[(h^h>>32)%uint64(len(shards))]
}
