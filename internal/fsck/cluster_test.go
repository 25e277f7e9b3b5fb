package fsck_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

var (
	remote = posix.MakeIno(1, 1) // root of partition 1
	stored = posix.MakeBlockID(1, 1, 1)
)

// First bytes of keys: see package meta.
const (
	keyInode  = 2
	keyDirent = 3
	keyCookie = 4
	keyOrphan = 7
	keyBlock  = 8
)

// fill makes a sound cluster of two partitions: files in both, one of them with a block.
func fill(t *testing.T, partition uint16, keys *kv.Store) {
	t.Helper()
	cfg := meta.Config{Partition: partition}
	commands := []meta.Command{
		{Op: meta.OpMknod, Ino: remote, Name: "file", Mode: posix.TypeRegular | 0o644},
		{Op: meta.OpWrite, Ino: posix.MakeIno(1, 2), Offset: 10, Length: 5, Blocks: []meta.Block{{ID: stored, Length: 5}}},
	}
	if partition == 0 {
		cfg.Genesis = []meta.Birth{{Name: "remote", Ino: remote}}
		commands = []meta.Command{
			{Op: meta.OpMknod, Ino: posix.Root, Name: "dir", Mode: posix.TypeDir | 0o755},
			{Op: meta.OpMknod, Ino: 2, Name: "file", Mode: posix.TypeRegular | 0o644},
		}
	}
	m, err := meta.New(keys, cfg)
	require.NoError(t, err)
	for i, c := range commands {
		c.Session = stored.Session()
		require.Equal(t, posix.OK, m.Apply(&c, uint64(i+1)).Code, "%+v", c)
	}
	require.NoError(t, keys.Commit(false))
}

// first gives the first key of a kind with this end.
func first(t *testing.T, keys *kv.Store, kind byte, end string) []byte {
	t.Helper()
	for key := range keys.Scan([]byte{kind}, []byte{kind + 1}) {
		if bytes.HasSuffix(key, []byte(end)) {
			return bytes.Clone(key)
		}
	}
	require.Fail(t, "no such key", "kind %d, end %q", kind, end)
	return nil
}

// remove takes a key out of a store.
func remove(kind byte, end string) func(t *testing.T, keys *kv.Store) {
	return func(t *testing.T, keys *kv.Store) { keys.Delete(first(t, keys, kind, end)) }
}

// damage is a fault, with its report.
type damage struct {
	partition int
	does      func(t *testing.T, keys *kv.Store)
	where     string
	what      string
}

// damages are one for each kind of check.
var damages = map[string]damage{
	"entry gone": {0, remove(keyDirent, "file"), "partition 0", "has no entry like it"},
	"inode gone": {0, remove(keyInode, "\x02"), "partition 0", "is not there"},
	"links": {0, func(t *testing.T, keys *kv.Store) {
		key := first(t, keys, keyInode, "\x03") // the file: mode, links
		value := bytes.Clone(keys.Get(key))
		require.EqualValues(t, 1, value[3])
		value[3] = 2
		keys.Set(key, value)
	}, "between partitions", "has 2 links: 1 entries name it"},
	"garbage":    {1, func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{1}, []byte{0xff}) }, "partition 1", "stored metadata"},
	"empty":      {1, func(t *testing.T, keys *kv.Store) { keys.Delete([]byte{1}) }, "partition 1", "there is no state"},
	"far orphan": {1, func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{keyOrphan, 0, 1, 0, 0, 0, 0, 0, 2}, []byte{1}) }, "between partitions", "takes it for an orphan"},
	"lost block": {0, func(_ *testing.T, keys *kv.Store) {
		id := posix.MakeBlockID(0, 1, 1)
		keys.Set(append([]byte{keyBlock}, id[:]...), []byte{2, 0, 9}) // away
	}, "between partitions", "no partition holds it"},
	"root's name": {0, func(t *testing.T, keys *kv.Store) { rename(t, keys, "remote", posix.MakeIno(1, 77)) }, "between partitions", "which is nowhere"},
}

// rename makes an entry of the root directory name another inode of another partition.
func rename(t *testing.T, keys *kv.Store, name string, to posix.Ino) {
	t.Helper()
	other := kv.NewMemory()
	_, err := meta.New(other, meta.Config{Genesis: []meta.Birth{{Name: name, Ino: to}}})
	require.NoError(t, err)
	for key, value := range other.Scan([]byte{keyDirent}, []byte{keyCookie + 1}) {
		keys.Set(key, value)
	}
}

// leaveUndecided prepares a command of both partitions in partition 1, which then waits for the other.
func leaveUndecided(t *testing.T, keys *kv.Store) {
	t.Helper()
	m, err := meta.New(keys, meta.Config{Partition: 1})
	require.NoError(t, err)
	m.Prepare(9, &meta.Command{Op: meta.OpMove, Child: posix.MakeIno(1, 2), Target: 0}, []uint16{0, 1})
	require.Equal(t, 1, meta.Undecided(keys))
	require.NoError(t, keys.Commit(false))
}

// cluster is a fsck.Source. Its pages have one key each.
type cluster struct {
	stores []*kv.Store
	moving bool                   // a command is executed between any two pages
	scan   func(partition uint16) // called at the beginning of each scan
	has    func(posix.BlockID) bool
	fails  error
	count  uint64
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{has: func(id posix.BlockID) bool { return id == stored }, scan: func(uint16) {}}
	for p := range uint16(2) {
		c.stores = append(c.stores, kv.NewMemory())
		fill(t, p, c.stores[p])
	}
	return c
}

func (c *cluster) Scan(_ context.Context, partition uint16, after []byte) ([]meta.Pair, ask.Seen, error) {
	if after == nil {
		c.scan(partition)
	}
	if c.moving {
		c.count++
	}
	seen := ask.Seen{Count: c.count}
	for key, value := range c.stores[partition].Scan(append(bytes.Clone(after), 0), []byte{0x40}) {
		return []meta.Pair{{Key: bytes.Clone(key), Value: bytes.Clone(value)}}, seen, c.fails
	}
	return nil, seen, c.fails
}

func (c *cluster) HasBlock(_ context.Context, partition uint16, id posix.BlockID) (bool, error) {
	return partition == 1 && c.has(id), c.fails
}
