package diskcache_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/diskcache"
)

// slot opens a cache of a cluster in a shared directory.
func slot(t *testing.T, root, cluster string) *diskcache.Cache {
	c, err := diskcache.OpenSlot(diskcache.Config{Dir: root, MaxBytes: smallCache, Cluster: cluster})
	require.NoError(t, err)
	return c
}

// Several processes have a cache each, and find the blocks of their cluster again.
func TestSlots(t *testing.T) {
	root := filepath.Join(t.TempDir(), "made", "globalfs")
	first, second, other := slot(t, root, "one"), slot(t, root, "one"), slot(t, root, "two")
	store := counted()
	fillCache(t, other, other.Over(store), 0, 3, 20000)
	last := slot(t, root, "three")
	_, err := diskcache.OpenSlot(diskcache.Config{Dir: root, MaxBytes: smallCache, Cluster: "one"})
	require.ErrorIs(t, err, diskcache.ErrInUse)
	for _, c := range []*diskcache.Cache{first, second, other, last} {
		require.NoError(t, c.Close())
	}
	found := slot(t, root, "two")
	until(t, "loaded", func() bool { return found.Stats().Blocks == 3 })
	taken := slot(t, root, "four") // of another cluster
	require.Zero(t, taken.Stats().Blocks)
	require.NoError(t, found.Close())
	require.NoError(t, taken.Close())
	for _, dir := range []string{root, filepath.Join(root, "0"), filepath.Join(root, "3", "globalfs-blocks")} {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.EqualValues(t, 0o700, info.Mode().Perm(), dir)
	}
}

// A directory that others may read or replace is not used.
func TestSlotsArePrivate(t *testing.T) {
	for name, spoil := range map[string]func(slot string) error{
		"readable":  func(slot string) error { return os.Chmod(slot, 0o755) },
		"a link":    func(slot string) error { return os.Symlink(t.TempDir(), slot) },
		"a file":    func(slot string) error { return os.WriteFile(slot, nil, 0o600) },
		"a foreign": func(slot string) error { return os.Chown(slot, 12345, 12345) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a foreign" && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			root := t.TempDir()
			path := filepath.Join(root, "0")
			if name == "readable" || name == "a foreign" {
				require.NoError(t, os.Mkdir(path, 0o700))
			}
			require.NoError(t, spoil(path))
			_, err := diskcache.OpenSlot(diskcache.Config{Dir: root, MaxBytes: smallCache, Cluster: "one"})
			require.ErrorContains(t, err, "remove it")
		})
	}
}

// A file system in memory is no place for a cache.
func TestSlotsInMemory(t *testing.T) {
	root, err := os.MkdirTemp("/dev/shm", "globalfs-slots-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	_, err = diskcache.OpenSlot(diskcache.Config{Dir: root, MaxBytes: smallCache, Cluster: "one"})
	require.ErrorContains(t, err, "in memory")
}

// The blocks of a slot are those of the store.
func TestSlotIsACache(t *testing.T) {
	c := slot(t, t.TempDir(), "one")
	store := counted()
	fillCache(t, c, c.Over(store), 0, 2, 20000)
	id, data := blocktest.Block(1, 20000)
	blocktest.RequireBlock(t, c.Over(store), id, data)
	require.Zero(t, store.gets.Load())
	require.NoError(t, c.Close())
}
