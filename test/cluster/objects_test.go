package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
)

// A cluster with its blocks in object storage: the blocks outlive the servers, and are collected there.
func TestBlocksInObjectStorage(t *testing.T) {
	storage := objectstest.Start(t, t.TempDir())
	c := startWith(t, Config{
		Objects: fmt.Sprintf("{endpoint: %q, bucket: %s, prefix: fs, region: us-east-1, pathstyle: true}", storage.Endpoint(), objectstest.Bucket),
	})
	bucket := filepath.Join(storage.Dir, objectstest.Bucket)
	stored := func() (bytes int64) {
		require.NoError(t, filepath.Walk(bucket, func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return err
		}))
		return bytes
	}
	m, err := c.Mount(t.Context(), "west", "", t.TempDir())
	require.NoError(t, err)
	content := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	file := filepath.Join(m.Dir, "west", "file")
	require.NoError(t, os.WriteFile(file, content, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(m.Dir, "west", "removed"), content, 0o644))
	require.NoError(t, os.Remove(filepath.Join(m.Dir, "west", "removed")))
	require.Greater(t, stored(), int64(6<<20))
	require.Eventually(t, func() bool {
		_, err := c.Run(t.Context(), "gc", "--grace", "0s", m.Dir)
		return err == nil && stored() < 4<<20
	}, time.Minute, time.Second, "the removed file's block")
	require.NoError(t, m.Close())

	for _, s := range c.Servers {
		s.Kill()
	}
	for _, s := range c.Servers {
		require.NoError(t, s.Start(t.Context()))
	}
	require.NoError(t, m.Start(t.Context()))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, content, got)
	_, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err)
}
