package attach

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/topology"
)

func TestDefaultDiskCache(t *testing.T) {
	near := topology.Partition{ID: 0, Replicas: []topology.Replica{{Region: "here"}, {Region: "there"}}}
	far := topology.Partition{ID: 1, Replicas: []topology.Replica{{Region: "there"}}}
	one := &topology.Cluster{Partitions: []topology.Partition{near}}
	two := &topology.Cluster{Partitions: []topology.Partition{near, far}}
	objects := &topology.Cluster{Partitions: []topology.Partition{near}, Objects: &topology.Objects{}}
	log := slog.New(slog.DiscardHandler)
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv("CACHE_DIRECTORY", dir+":/elsewhere")

	require.Nil(t, OpenDefaultDiskCache(DefaultDiskCacheBytes, one, "here", log))
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "near blocks need no directory")
	for _, plan := range []*topology.Cluster{two, objects} {
		c := OpenDefaultDiskCache(DefaultDiskCacheBytes, plan, "here", log)
		require.NotNil(t, c)
		require.NoError(t, c.Close())
	}

	c, err := diskcache.OpenSlot(diskcache.Config{Dir: dir, MaxBytes: DefaultDiskCacheBytes, Cluster: "x"})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	cached := func(plan *topology.Cluster, onlyFar bool, p int) bool {
		cfg := Config{Cluster: plan, Region: "here", Disk: c, DiskFar: onlyFar}
		return cfg.keepsOnDisk(&plan.Partitions[p])
	}
	require.False(t, cached(two, true, 0))
	require.True(t, cached(two, true, 1))
	require.True(t, cached(two, false, 0), "of a directory that was given")
	require.True(t, cached(objects, true, 0))

	t.Setenv("CACHE_DIRECTORY", "/proc/no/place")
	require.Nil(t, OpenDefaultDiskCache(DefaultDiskCacheBytes, two, "here", log), "the client works without it")
}

func TestDefaultCacheDir(t *testing.T) {
	t.Setenv("CACHE_DIRECTORY", "")
	t.Setenv("XDG_CACHE_HOME", "/home/a/.cache")
	dir, err := defaultCacheDir()
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		require.Equal(t, "/var/cache/globalfs", dir)
	} else {
		require.Equal(t, "/home/a/.cache/globalfs", dir)
	}
}
