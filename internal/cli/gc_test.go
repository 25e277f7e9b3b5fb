package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/dev"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

func TestGCWrongInput(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":  {[]string{"gc"}, command.ExitUsage, "gc: give one MOUNTPOINT"},
		"both":     {[]string{"gc", "--dry-run", "--grace", "1s", dir}, command.ExitUsage, "give one of them"},
		"negative": {[]string{"gc", "--grace", "-1s", dir}, command.ExitInput, "--grace -1s"},
		"output":   {[]string{"gc", "-o", "xml", dir}, command.ExitInput, "give text or json"},
		"not":      {[]string{"gc", dir}, 1, "not on a GlobalFS mount"},
	} {
		require.Contains(t, fails(t, c.code, c.args...), c.says, name)
	}
}

// clusterHere mounts an embedded cluster of one region, with two storage servers more than copies of a block.
// It returns the mount point and the cluster file.
func clusterHere(t *testing.T, grace time.Duration) (dir, config string) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	spec := topology.DefaultSpec()
	spec.Regions, spec.Copies = spec.Regions[:1], 1
	healing := region.DefaultHealing()
	healing.RepairInterval, healing.RepairPause = time.Second, 50*time.Millisecond
	cfg := dev.Config{
		Spec: spec, Dir: t.TempDir(), Durability: wal.OS, Tuning: server.Tuning{Healing: healing}, Grace: grace, Logger: slog.New(slog.DiscardHandler),
	}
	c, err := dev.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	dir = t.TempDir()
	m, err := mountAt(c, cfg, mountPoint{region: spec.Regions[0], dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.close()) })
	return dir, c.File()
}

func TestGCCommand(t *testing.T) {
	dir, _ := clusterHere(t, 0)
	file := filepath.Join(dir, "us-west-2", "file")
	for range 2 { // the second time in the place of the first
		require.NoError(t, os.WriteFile(file, make([]byte, 100_000), 0o600))
	}
	var r collector.Report
	require.NoError(t, json.Unmarshal([]byte(run(t, "gc", "--dry-run", "-o", "json", dir)), &r))
	require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100_000}, r.Partitions[1].Live)
	require.Equal(t, collector.Amount{Blocks: 1, Bytes: 100_000}, r.Partitions[1].Dropped)
	require.Zero(t, r.Partitions[1].Due, "the grace period is not over")
	require.EqualValues(t, 2, r.Regions[0].Seen)

	require.Regexp(t, `1 /us-west-2\s+1\s+98 KiB\s+1\s+98 KiB\s+1\s+98 KiB`, run(t, "gc", "--grace", "0s", dir))
	require.NoError(t, json.Unmarshal([]byte(run(t, "gc", "--dry-run", "-o", "json", dir)), &r))
	require.Zero(t, r.Partitions[1].Dropped)
	require.EqualValues(t, 1, r.Regions[0].Seen)
}

// Without --grace, gc deletes the blocks that --dry-run reports, by the grace time of the cluster.
func TestGCHasTheGraceOfTheCluster(t *testing.T) {
	dir, _ := clusterHere(t, -1)
	file := filepath.Join(dir, "us-west-2", "file")
	for range 2 { // the second time in the place of the first
		require.NoError(t, os.WriteFile(file, make([]byte, 100_000), 0o600))
	}
	var planned, done collector.Report
	require.NoError(t, json.Unmarshal([]byte(run(t, "gc", "--dry-run", "-o", "json", dir)), &planned))
	require.NoError(t, json.Unmarshal([]byte(run(t, "gc", "-o", "json", dir)), &done))
	require.EqualValues(t, 1, planned.Partitions[1].Due.Blocks)
	require.Equal(t, planned.Partitions[1].Due, done.Partitions[1].Collected)
}

// The table has numbers only. The errors follow in lines of their own, without the layers of the network.
func TestGCPrintsErrorsBelow(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printCollection(&out, &collector.Report{
		Partitions: []collector.Partition{{ID: 1, Path: "/a", Error: "timed out"}},
		Regions:    []collector.Swept{{Region: "a", Error: "list the blocks: storage server 1: too few storage servers answer: process 1: process unreachable: 127.0.0.1:17420: dial tcp 127.0.0.1:17420: connect: connection refused"}},
	}, false))
	require.Contains(t, out.String(), "0 B\n\n", "the end of a row")
	require.True(t, strings.HasSuffix(out.String(), "\n\npartition 1 /a: timed out\nregion a: list the blocks: storage server 1: too few storage servers answer: 127.0.0.1:17420: connection refused\n"), out.String())
}
