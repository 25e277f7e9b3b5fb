package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Shards are the partitions of one region. A new directory goes to one of them by a hash of its parent and
// its name, unless the parent has a rule. So the directories of a region spread over all shards. Files are
// made in the partition of their directory, so a create is a command of one partition.
//
// The shards are state of each partition, which gets them at birth. Entries of the partition's order append
// more (AddShards), so that all replicas agree from which entry on a directory may go to a new one. Existing
// directories stay in their partitions.

var shardsKey = []byte{prefixShards}

// MaxShards is the most partitions of a region.
const MaxShards = 64

// storeShards stores the shards at the birth of a partition, and returns them. One shard needs no entry.
func storeShards(keys Keys, shards []uint16) []uint16 {
	if len(shards) < 2 {
		return nil
	}
	keys.Set(shardsKey, AppendShards(nil, shards))
	return shards
}

// AppendShards appends the encoding of a list of shards.
func AppendShards(b []byte, shards []uint16) []byte {
	b = varint.AppendUint(b, uint64(len(shards)))
	for _, p := range shards {
		b = varint.AppendUint(b, p)
	}
	return b
}

// Shards returns the partitions of the region, as a partition knows them. The caller must not change them.
func Shards(m *Machine) []uint16 {
	if len(m.shards) == 0 {
		return []uint16{m.cfg.Partition}
	}
	return m.shards
}

// AddShards appends shards to the partitions of the region. shards must begin with the present ones;
// otherwise AddShards reports false and nothing changes.
func AddShards(m *Machine, shards []uint16) bool {
	now := Shards(m)
	if len(shards) <= len(now) || checkShards(m.cfg.Partition, shards) != nil || !slices.Equal(shards[:len(now)], now) {
		return false
	}
	m.shards = storeShards(m.keys, slices.Clone(shards))
	return true
}

// StoredShards reads the shards of a stored partition; none: the region has one partition.
func StoredShards(keys Keys) (shards []uint16, err error) {
	b := keys.Get(shardsKey)
	if b == nil {
		return nil, nil
	}
	if shards, err = DecodeShards(b); err != nil {
		return nil, fmt.Errorf("stored metadata: shards: %w", err)
	}
	return shards, nil
}

// DecodeShards decodes the output of AppendShards.
func DecodeShards(b []byte) (shards []uint16, err error) {
	r := varint.NewReader(b)
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		shards = append(shards, r.Uint16())
	}
	return shards, r.Done()
}

// shardsOf checks the stored shards: several, each once, this partition among them.
func (c *checker) shardsOf(_, value []byte) {
	shards, err := DecodeShards(value)
	if err == nil {
		err = checkShards(c.partition, shards)
	}
	if err != nil {
		c.report("shards: %v", err)
	}
}

// checkShards refuses a list that cannot be the shards of a partition.
func checkShards(partition uint16, shards []uint16) error {
	if len(shards) < 2 || len(shards) > MaxShards || !slices.Contains(shards, partition) || len(slices.Compact(slices.Sorted(slices.Values(shards)))) < len(shards) {
		return fmt.Errorf("partition %d has the shards %v", partition, shards)
	}
	return nil
}

// placeFor returns the partition for a new inode with a type and a name: the rule of the directory determines
// it, else, for a directory, the shards.
func (m *Machine) placeFor(dir posix.Ino, name string, kind posix.Mode) uint16 {
	if r, ok := m.rule(dir); ok {
		return r.Place(m.cfg.Partition, name)
	}
	if kind != posix.TypeDir || len(m.shards) == 0 {
		return m.cfg.Partition
	}
	return ShardOf(m.shards, dir, name)
}

// ShardOf returns the shard of a new directory in a parent without a rule.
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
