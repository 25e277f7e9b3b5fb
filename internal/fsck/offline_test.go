package fsck_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// stopped is the data directory of a stopped cluster of two partitions.
type stopped struct {
	dir  string
	plan *topology.Cluster
}

func newStopped(t *testing.T) *stopped {
	t.Helper()
	spec := topology.Spec{Regions: []topology.Region{"oregon"}, Datacenters: 3, Replicas: 3, Copies: 1}
	plan, err := spec.Plan()
	require.NoError(t, err)
	s := &stopped{dir: t.TempDir(), plan: plan}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "lock"), nil, 0o600))
	s.describe(t, spec.YAML())
	for i, server := range plan.Servers {
		blocks, err := disk.Open(disk.DefaultConfig(s.blocks(i)))
		require.NoError(t, err)
		if i == 1 {
			require.NoError(t, blocks.Put(t.Context(), block.New(stored, []byte("hello"))))
		}
		require.NoError(t, blocks.Close())
		for p := range plan.Partitions {
			s.edit(t, p, server.Name, func(t *testing.T, keys *kv.Store) { fill(t, uint16(p), keys) })
		}
	}
	return s
}

// describe makes a registry with a description.
func (s *stopped) describe(t *testing.T, description []byte) {
	t.Helper()
	r, err := registry.OpenLocal(filepath.Join(s.dir, registry.LocalFile))
	require.NoError(t, err)
	_, created, err := r.Bootstrap(t.Context(), description)
	require.NoError(t, err)
	require.True(t, created)
}

func (s *stopped) state(partition int, server string) string {
	return filepath.Join(s.dir, server, topology.PartitionDir(uint16(partition)), "state")
}

func (s *stopped) blocks(server int) string {
	return filepath.Join(s.dir, s.plan.Servers[server].Name, "blocks")
}

// edit changes the store of a replica.
func (s *stopped) edit(t *testing.T, partition int, server string, change func(t *testing.T, keys *kv.Store)) {
	t.Helper()
	keys, err := kv.Open(s.state(partition, server), kv.Options{})
	require.NoError(t, err)
	change(t, keys)
	require.NoError(t, keys.Commit(true))
	require.NoError(t, keys.Close())
}

// editAll changes all replicas of a partition alike.
func (s *stopped) editAll(t *testing.T, partition int, change func(t *testing.T, keys *kv.Store)) {
	t.Helper()
	for _, r := range s.plan.Partitions[partition].Replicas {
		s.edit(t, partition, r.Server, change)
	}
}

func (s *stopped) check(t *testing.T, o fsck.Options) *fsck.Report {
	t.Helper()
	r, err := fsck.Offline(t.Context(), s.dir, o)
	require.NoError(t, err)
	return &r
}

func TestOfflineClean(t *testing.T) {
	r := newStopped(t).check(t, fsck.Options{Blocks: fsck.AllBlocks})
	require.Empty(t, r.Problems)
	require.Equal(t, []fsck.Partition{
		{ID: 0, Replicas: 3, Inodes: 3, Entries: 3},
		{ID: 1, Replicas: 3, Inodes: 2, Entries: 1, Blocks: 1, Read: 1},
	}, r.Partitions)
}

func TestOfflineFindsDamage(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			s := newStopped(t)
			s.editAll(t, d.partition, d.does)
			r := s.check(t, fsck.Options{})
			require.False(t, r.Sound())
			where := d.where
			if where != "between partitions" {
				where += " on oregona"
			}
			requireProblem(t, r, where, d.what)
		})
	}
}

// Replicas that have executed the same commands hold the same bytes.
func TestOfflineReplicasDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, keys *kv.Store)
		says   string
	}{
		"missing": {func(_ *testing.T, keys *kv.Store) { keys.Delete([]byte{0x41, 1}) }, "it has no key 4101"},
		"more":    {func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 0}, nil) }, "only it has key 4100"},
		"last":    {func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 2}, nil) }, "only it has key 4102"},
		"value":   {func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 1}, []byte{7}) }, "the value of key 4101 is 07 and not 06"},
		"long":    {func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 1}, make([]byte, 99)) }, "... (99 bytes) and not 06"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStopped(t)
			s.editAll(t, 1, func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 1}, []byte{6}) })
			s.edit(t, 1, "oregonb", c.change)
			r := s.check(t, fsck.Options{})
			require.Len(t, r.Problems, 1)
			require.Equal(t, "partition 1 on oregonb", r.Problems[0].Where)
			require.Contains(t, r.Problems[0].What, "the same commands as partition 1 on oregona, but")
			require.Contains(t, r.Problems[0].What, c.says)
		})
	}
}

// The replica that differs from the majority is named, also if it is the first one.
func TestOfflineNamesTheOddReplica(t *testing.T) {
	for _, odd := range []string{"oregona", "oregonb", "oregonc"} {
		s := newStopped(t)
		s.edit(t, 1, odd, func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 1}, []byte{7}) })
		r := s.check(t, fsck.Options{})
		require.Len(t, r.Problems, 1)
		require.Equal(t, "partition 1 on "+odd, r.Problems[0].Where)
		require.Contains(t, r.Problems[0].What, "only it has key 4101")
	}
}

// Replicas of servers whose directories are elsewhere are not checked.
func TestOfflineSomeServers(t *testing.T) {
	s := newStopped(t)
	plan, dirs := s.plan, map[string]string{}
	for _, name := range []string{"oregona", "oregonc"} {
		dirs[name] = filepath.Join(s.dir, name)
	}
	s.edit(t, 1, "oregonb", func(_ *testing.T, keys *kv.Store) { keys.Set([]byte{0x41, 1}, []byte{7}) })
	r, err := fsck.Servers(t.Context(), plan, dirs, fsck.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Problems)
	require.Contains(t, strings.Join(r.Notes, ". "), "data directories that are not here: oregonb: ")
	require.Equal(t, 2, r.Partitions[1].Replicas)
}

// A replica that is behind is no problem, and partitions are compared by their replicas that are ahead.
func TestOfflineReplicaBehind(t *testing.T) {
	s := newStopped(t)
	s.edit(t, 1, "oregonc", func(t *testing.T, keys *kv.Store) {
		m, err := meta.New(keys, meta.Config{Partition: 1})
		require.NoError(t, err)
		require.Zero(t, m.Apply(&meta.Command{Op: meta.OpMknod, Ino: remote, Name: "new", Mode: 0o100644}, 9).Code)
		keys.Set([]byte{0x40}, []byte{9, 1, 1, 0}) // a replica's position: final 9, by process 1
	})
	r := s.check(t, fsck.Options{})
	require.Empty(t, r.Problems)
	require.EqualValues(t, 3, r.Partitions[1].Inodes)
}

func TestOfflineInFlight(t *testing.T) {
	s := newStopped(t)
	s.editAll(t, 1, func(t *testing.T, keys *kv.Store) {
		damages["far orphan"].does(t, keys)
		leaveUndecided(t, keys)
	})
	r := s.check(t, fsck.Options{})
	require.Len(t, r.Problems, 1)
	require.True(t, r.Problems[0].InFlight)
	require.True(t, r.Sound())
}

func TestOfflineLostStores(t *testing.T) {
	s := newStopped(t)
	require.NoError(t, os.RemoveAll(s.state(0, "oregonb")))
	r := s.check(t, fsck.Options{})
	requireProblem(t, r, "partition 0 on oregonb", "there is no store")
	require.Len(t, r.Partitions, 2)

	for _, server := range []string{"oregona", "oregonc"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.state(0, server), "CURRENT"), []byte("garbage\n"), 0o600))
	}
	r = s.check(t, fsck.Options{})
	requireProblem(t, r, "partition 0 on oregonc", "open store")
	require.Len(t, r.Partitions, 1)
	require.Contains(t, r.Notes[0], "were not checked")
}

// A store that opens and cannot be read is reported as such, and not by consequences.
func TestOfflineDamagedStore(t *testing.T) {
	s := newStopped(t)
	s.edit(t, 0, "oregona", func(*testing.T, *kv.Store) {}) // opening it makes tables of the journal
	tables, err := filepath.Glob(filepath.Join(s.state(0, "oregona"), "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		b, err := os.ReadFile(table)
		require.NoError(t, err)
		b[len(b)/4] ^= 0xff
		require.NoError(t, os.WriteFile(table, b, 0o600))
	}
	r := s.check(t, fsck.Options{})
	require.Len(t, r.Problems, 1)
	require.Equal(t, "partition 0 on oregona", r.Problems[0].Where)
	require.Contains(t, r.Problems[0].What, "corruption")
	require.Equal(t, 2, r.Partitions[0].Replicas, "the others are checked")
}

func TestOfflineBlocks(t *testing.T) {
	s := newStopped(t)
	require.NoError(t, os.RemoveAll(s.blocks(1)))
	r := s.check(t, fsck.Options{Blocks: 1})
	requireProblem(t, r, "storage of oregonb", "there is none")
	requireProblem(t, r, "partition 1", "there is no good copy in oregon")
	require.Empty(t, s.check(t, fsck.Options{}).Problems, "blocks were not asked for")
}

func TestOfflineRefuses(t *testing.T) {
	s := newStopped(t)
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	_, err = fsck.Offline(t.Context(), s.dir, fsck.Options{})
	require.ErrorContains(t, err, "is in use: stop its cluster")

	_, err = fsck.Offline(t.Context(), t.TempDir(), fsck.Options{})
	require.ErrorContains(t, err, "is not a data directory")

	other := newStopped(t)
	require.NoError(t, os.Remove(filepath.Join(other.dir, registry.LocalFile)))
	_, err = fsck.Offline(t.Context(), other.dir, fsck.Options{})
	require.ErrorIs(t, err, registry.ErrNotFound)
	require.ErrorContains(t, err, other.dir)
	other.describe(t, []byte("regons: 3\n"))
	_, err = fsck.Offline(t.Context(), other.dir, fsck.Options{})
	require.ErrorContains(t, err, "regons")
}
