package dev

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/topology"
)

// TestCacheOnDisk: data that was written through a mount can be read after a restart without the block store.
func TestCacheOnDisk(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	cfg := testConfig(t.TempDir())
	cfg.CacheDir, cfg.CacheBytes = t.TempDir(), 64<<20
	cfg.Spec.Objects = &topology.Objects{Bucket: topology.Bucket{Endpoint: server.Endpoint(), Bucket: objectstest.Bucket, Region: "us-east-1", PathStyle: true}}
	content := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	name := filepath.Join(string(west), "file")
	run := func(step string, use func(t *testing.T, c *Cluster, dir string)) {
		require.True(t, t.Run(step, func(t *testing.T) {
			c := start(t, cfg)
			use(t, c, mountIn(t, c, west))
		}))
	}
	run("write", func(t *testing.T, _ *Cluster, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	})
	run("read", func(t *testing.T, c *Cluster, dir string) {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
	})
	run("read without the block store", func(t *testing.T, c *Cluster, dir string) {
		for deadline := time.Now().Add(20 * time.Second); c.cache.Stats().Blocks < 3; runtime.Gosched() {
			require.True(t, time.Now().Before(deadline), "the cache loads what it has")
		}
		server.Kill()
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
		require.Positive(t, c.cache.Stats().Hits)
	})
	other := testConfig(t.TempDir())
	other.CacheDir, other.CacheBytes = cfg.CacheDir, 1
	_, err := Start(t.Context(), other)
	require.ErrorContains(t, err, "block cache: 1 bytes: give at least 16777216")
}
