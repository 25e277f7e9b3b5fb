package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/growth"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/test/cluster"
)

// A small run measures everything. The files made in the stores are in both kinds of directories. No mount or
// file is left.
func TestGrowth(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a mount needs root and /dev/fuse: %v", err)
	}
	if _, err := cluster.FindEtcd(); err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	t.Setenv(asProgram, "1")
	work := t.TempDir()
	var out, said bytes.Buffer
	code := Main([]string{
		"growth", "--globalfs", program(t), "--data-dir", work, "--durability", "os", "--sizes", "300,1500", "--directory", "300",
		"--operations", "10", "--open", "400", "--idle", "2", "--sessions", "3", "--window", "1s", "-o", "json",
	}, &out, &said)
	require.Equal(t, command.ExitOK, code, said.String())
	var report growth.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report), out.String())
	require.Len(t, report.Points, 2)
	for _, p := range report.Points {
		require.Positive(t, min(p.Stat, p.Create, p.Rename, p.Unlink, p.List, p.Start, p.Rest, p.Fsck, p.Backup, p.NextBackup, p.Transfer))
		require.Positive(t, min(p.Store, p.ServerMemory, p.MountMemory, p.FsckMemory, p.ReceiverMemory, p.DonorMemory))
	}
	require.Equal(t, 400, report.Open.Files)
	require.Equal(t, 2, report.Idle.Mounts)
	require.Equal(t, 3, report.Sessions.Sessions)
	require.Positive(t, min(report.Sessions.Each, report.Sessions.Create))
	require.Positive(t, min(report.Sessions.MemoryAlone, report.Sessions.Memory, report.Sessions.Process))
	left, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Empty(t, left)
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), work)
}

func TestGrowthInput(t *testing.T) {
	for args, text := range map[string]string{"--sizes=300,200": "ascend", "--sizes=10": "operations (300)", "--directory=0": "give at least", "--durability=memory": "give sync or os", "--skip=start": "skip"} {
		var out, err bytes.Buffer
		require.Equal(t, command.ExitInput, Main([]string{"growth", args}, &out, &err), "%s: %s", args, err.String())
		require.Contains(t, err.String(), text)
	}
}
