package cluster

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/posix"
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

	// A repository of backups in the object storage.
	repository := "s3://" + objectstest.Bucket + "/backups?region=us-east-1&pathstyle=true&endpoint=" + storage.Endpoint()
	first := c.backUp(t, repository)
	require.EqualValues(t, 3, first.BlockCount)
	require.Less(t, c.backUp(t, repository).NewBytes, uint64(1<<20), "the second backup stores what has changed")
	out, err := c.Run(t.Context(), "backup", "list", repository)
	require.NoError(t, err)
	require.Contains(t, out, first.ID)
	out, err = c.Run(t.Context(), "backup", "verify", repository)
	require.NoError(t, err, out)
	require.Contains(t, out, "is sound")
	_, err = c.Run(t.Context(), "backup", "list", "s3://"+objectstest.Bucket+"/none?region=us-east-1&pathstyle=true&endpoint="+storage.Endpoint())
	require.ErrorContains(t, err, "has no backups")
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

// TestMountWithoutCredentials: a machine without credentials for the object storage works by requests that
// servers sign. A machine with a narrow certificate gets no block without a right to it, and replaces none.
func TestMountWithoutCredentials(t *testing.T) {
	storage := objectstest.Start(t, t.TempDir())
	c := startWith(t, Config{
		Objects: fmt.Sprintf("{endpoint: %q, bucket: %s, prefix: fs, region: us-east-1, pathstyle: true}", storage.Endpoint(), objectstest.Bucket),
	})
	_, err := c.Run(t.Context(), "certs", "client", "bound", "--dir", c.Certs(), "--uids", "1000", "--gids", "1000")
	require.NoError(t, err)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	_, err = objects.Open(t.Context(), objects.Config{Endpoint: storage.Endpoint(), Bucket: objectstest.Bucket, Timeout: time.Minute})
	require.ErrorIs(t, err, objects.ErrNoCredentials, "this process has none")
	west := filepath.Join(c.mountWith(t, c.only(t, "client-mount")), "west")
	out, err := shell(west, 0, "mkdir -m 777 open; umask 022; head -c 3000000 /dev/urandom > open/public; head -c 100000 /dev/urandom > open/private; chmod 600 open/private; cmp open/public open/public")
	require.NoError(t, err, out)
	bound := filepath.Join(c.mountWith(t, c.only(t, "client-bound")), "west", "open")
	out, err = shell(bound, 1000, "cp public copy && cmp public copy && rm copy && head -c 2000000 /dev/urandom > mine && sync mine && cmp mine mine; ! cat private")
	require.NoError(t, err, out)
	out, err = shell(west, 0, "cmp open/mine open/mine && cmp open/public open/public")
	require.NoError(t, err, out)

	via, id := c.attacker(t), posix.BlockID{}
	keys, err := filepath.Glob(filepath.Join(storage.Dir, objectstest.Bucket, "fs", "west", "*"))
	require.NoError(t, err)
	store := via.Regions[slices.IndexFunc(via.Regions, func(r collector.Region) bool { return r.Name == "west" })].Store
	tried := 0
	for _, key := range keys {
		if _, err := hex.Decode(id[:], []byte(filepath.Base(key))); err != nil || id.Partition() == 0 {
			continue
		}
		_, err := store.Get(t.Context(), id, nil)
		require.ErrorIs(t, err, block.ErrForbidden, "a block without a right to it")
		require.ErrorIs(t, store.Put(t.Context(), block.New(id, []byte("other content"))), block.ErrConflict)
		tried++
	}
	require.Positive(t, tried)
	require.Error(t, store.Delete(t.Context(), []block.ID{id}))
	out, err = shell(west, 0, "cmp open/mine open/mine && cmp open/public open/public")
	require.NoError(t, err, out)
}

// All servers are lost, and all blocks in the object storage. A new cluster in the same object storage is
// restored from a backup there: metadata and blocks.
func TestRestoreInObjectStorage(t *testing.T) {
	storage := objectstest.Start(t, t.TempDir())
	c := startWith(t, Config{
		Objects: fmt.Sprintf("{endpoint: %q, bucket: %s, prefix: fs, region: us-east-1, pathstyle: true}", storage.Endpoint(), objectstest.Bucket),
	})
	m, err := c.Mount(t.Context(), "west", "", t.TempDir())
	require.NoError(t, err)
	want := map[string]string{}
	for i, region := range []string{"west", "east", "eu"} {
		want[fmt.Sprintf("/%s/large", region)] = random(byte(i), 2<<20+i)
		want[fmt.Sprintf("/%s/small", region)] = "small in " + region
	}
	for path, content := range want {
		require.NoError(t, os.WriteFile(m.Dir+path, []byte(content), 0o644))
	}
	repository := "s3://" + objectstest.Bucket + "/backups?region=us-east-1&pathstyle=true&endpoint=" + storage.Endpoint()
	saved := c.backUp(t, repository)
	require.Positive(t, saved.BlockCount)
	require.NoError(t, os.WriteFile(m.Dir+"/west/later", []byte(random(9, 1<<20)), 0o644))
	require.NoError(t, m.Close())
	c.loseAll(t)
	require.NoError(t, os.RemoveAll(filepath.Join(storage.Dir, objectstest.Bucket, "fs")))

	c.restoreServers(t, repository, saved.ID)
	require.NoError(t, m.Start(t.Context()))
	_, err = os.ReadFile(m.Dir + "/west/large")
	require.Error(t, err, "its blocks are gone")
	out, err := c.Admin(t.Context(), "restore", "blocks", "--from", repository)
	require.NoError(t, err, out)
	require.NoError(t, m.Close())
	require.NoError(t, m.Start(t.Context()))
	require.Equal(t, want, files(t, m.Dir))
	require.NoError(t, os.WriteFile(m.Dir+"/eu/after", []byte(random(8, 1<<20)), 0o644))
	out, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err, out)
	require.NoError(t, m.Close())
}
