package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/fsck"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

func TestFsckWrongInput(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing": {[]string{"fsck"}, command.ExitUsage, "give one MOUNTPOINT, or --data-dir"},
		"both":    {[]string{"fsck", "--data-dir", dir, dir}, command.ExitUsage, "give one MOUNTPOINT, or --data-dir"},
		"two":     {[]string{"fsck", dir, dir}, command.ExitUsage, "give one MOUNTPOINT, or --data-dir"},
		"output":  {[]string{"fsck", "-o", "xml", dir}, command.ExitInput, "give text or json"},
		"not":     {[]string{"fsck", dir}, exitUnable, "not on a GlobalFS mount"},
		"no data": {[]string{"fsck", "--data-dir", dir}, exitUnable, "is not a data directory"},
	} {
		require.Contains(t, fails(t, c.code, c.args...), c.says, name)
	}
	require.Contains(t, run(t, "fsck", "--help"), "Examples:\n  globalfs fsck ")
}

func TestFsckMounted(t *testing.T) {
	dir, _ := mountHere(t)
	for _, name := range []string{"file", "us-east-1/file"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("content"), 1000), 0o600))
	}
	require.NoError(t, os.Rename(filepath.Join(dir, "file"), filepath.Join(dir, "us-west-2/file")))
	require.Contains(t, run(t, "fsck", dir), "clean\n")
	var r fsck.Report
	require.NoError(t, json.Unmarshal([]byte(run(t, "fsck", "--blocks", "-o", "json", filepath.Join(dir, "us-east-1"))), &r))
	require.Empty(t, r.Problems)
	require.Len(t, r.Partitions, 3)
	require.EqualValues(t, 1, r.Partitions[2].Read)
}

// The data of a stopped cluster has no problems; fsck finds a damaged store.
func TestFsckStopped(t *testing.T) {
	dir := t.TempDir()
	spec := topology.DefaultSpec()
	spec.Regions = spec.Regions[:2]
	c, err := dev.Start(t.Context(), dev.Config{Spec: spec, Dir: dir, Durability: wal.OS, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	makeFiles(t, c)
	require.Contains(t, fails(t, exitUnable, "fsck", "--data-dir", dir), "is in use: stop its cluster")
	require.NoError(t, c.Close())

	require.Contains(t, run(t, "fsck", "--blocks", "--data-dir", dir), "clean\n")

	keys, err := kv.Open(filepath.Join(dir, "us-east-1b", "partition-2", "state"), kv.Options{})
	require.NoError(t, err)
	for key := range keys.Scan([]byte{3}, []byte{4}) { // entries: see package meta
		keys.Delete(key)
		break
	}
	require.NoError(t, keys.Commit(true))
	require.NoError(t, keys.Close())
	var out, errs bytes.Buffer
	require.Equal(t, exitProblems, Main([]string{"fsck", "--data-dir", dir}, &out, &errs))
	require.Contains(t, out.String(), "partition 2 on us-east-1b: ")
	require.Contains(t, errs.String(), "the file system has errors")
}

// makeFiles makes a file in each partition, and moves one between partitions.
func makeFiles(t *testing.T, c *dev.Cluster) {
	t.Helper()
	cl, err := c.Client(c.Plan.Regions[0])
	require.NoError(t, err)
	ctx, root := context.Background(), posix.Cred{}
	for _, p := range c.Plan.Partitions {
		a, err := cl.Create(ctx, root, client.Name{Dir: p.Root(), Name: "file"}, 0o644, 0)
		require.NoError(t, err)
		_, err = cl.Write(ctx, root, client.Write{Ino: a.Ino, Data: make([]byte, 5000)})
		require.NoError(t, err)
		cl.Release(a.Ino)
	}
	from, to := client.Name{Dir: posix.Root, Name: "file"}, client.Name{Dir: c.Plan.Partitions[1].Root(), Name: "moved"}
	require.NoError(t, cl.Rename(ctx, root, from, to, 0))
	require.NoError(t, cl.Close())
}
