package dev

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/topology"
)

// files returns the names of the files below dir, and the sum of their sizes.
func files(t *testing.T, dir string) (names []string, bytes int64) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		names, bytes = append(names, path), bytes+info.Size()
		return err
	}))
	return names, bytes
}

// TestBlocksInObjectStorage writes through a mount, and reads after a restart of both the cluster and the
// object storage.
func TestBlocksInObjectStorage(t *testing.T) {
	server := objectstest.Start(t, t.TempDir())
	var log bytes.Buffer
	cfg := testConfig(t.TempDir())
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	objects := func() *topology.Objects {
		return &topology.Objects{Bucket: topology.Bucket{Endpoint: server.Endpoint(), Bucket: objectstest.Bucket, Prefix: "fs", Region: "us-east-1", PathStyle: true}}
	}
	cfg.Spec.Objects = objects()
	contents := map[string][]byte{}
	for i, size := range []int{100, 100_000, 5 << 20} {
		content := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(content)
		contents[string(west)+"/"+string('a'+rune(i))], contents[string('a'+rune(i))] = content, content
	}
	run := func(name string, use func(t *testing.T, dir string)) {
		require.True(t, t.Run(name, func(t *testing.T) {
			c := start(t, cfg)
			use(t, mountIn(t, c, west))
		}), "%s", name)
	}
	run("write", func(t *testing.T, dir string) {
		for name, content := range contents {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
		}
	})
	stored, size := files(t, filepath.Join(server.Dir, objectstest.Bucket))
	require.Greater(t, size, int64(4*5<<20), "the local file in one region, the global one in three")
	require.Less(t, size, int64(4*6<<20))
	for _, path := range stored {
		require.Contains(t, path, "/fs/")
	}
	names, size := files(t, cfg.Dir)
	require.Less(t, size, int64(4<<20), "no blocks with the servers")
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(content), objectstest.SecretKey, name)
	}

	server.Kill()
	server = objectstest.Start(t, server.Dir) // at another address
	cfg.Spec.Objects = objects()
	run("read", func(t *testing.T, dir string) {
		for name, content := range contents {
			got, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got), name)
		}
	})
	report, err := fsck.Offline(t.Context(), cfg.Dir, fsck.Options{Blocks: fsck.AllBlocks, Objects: attach.ExistingObjects})
	require.NoError(t, err)
	require.True(t, report.Sound(), "%v", report.Problems)
	require.Empty(t, report.Notes)
	for _, path := range stored {
		if strings.Contains(path, "/"+string(west)+"/") && !strings.HasSuffix(path, "/cluster") {
			require.NoError(t, os.Remove(path))
		}
	}
	report, err = fsck.Offline(t.Context(), cfg.Dir, fsck.Options{Blocks: fsck.AllBlocks, Objects: attach.ExistingObjects})
	require.NoError(t, err)
	require.False(t, report.Sound(), "blocks are gone")

	other := cfg
	other.Dir = t.TempDir()
	_, err = Start(t.Context(), other)
	require.ErrorContains(t, err, "another cluster")
	cfg.Spec.Objects.Prefix = "elsewhere"
	_, err = Start(t.Context(), cfg)
	require.ErrorContains(t, err, "made for another cluster")
	require.NotContains(t, log.String(), objectstest.SecretKey)
}
