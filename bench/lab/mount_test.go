package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/bench/compare"
	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/test/cluster"
)

// One run measures the mount, the loopback file system and the disk, and the visibility of changes on a
// second mount. No mounts or files are left.
func TestMount(t *testing.T) {
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
		"mount", "--globalfs", program(t), "--data-dir", work, "--durability", "os", "--mount-options", "timeout=20s", "--delegate", "--",
		"--measures", "create,seen-create,seen-write", "--files", "24", "--clients", "1", "--rounds", "1", "-o", "json",
	}, &out, &said)
	require.Equal(t, command.ExitOK, code, said.String())
	var rows []compare.Row
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows), out.String())
	require.Len(t, rows, 8)
	for i, name := range []string{"loopback", "globalfs", "held", "disk", "globalfs", "held", "globalfs", "held"} {
		require.Equal(t, name, rows[i].Directory)
		require.Equal(t, 24, rows[i].Operations)
	}
	require.Len(t, rows[1].CPU, 1+3) // the mount and all servers
	require.Less(t, *rows[2].Commands, *rows[1].Commands, "the third mount has sent several changes in one command")
	left, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Empty(t, left)
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), work)
}

func TestMountInput(t *testing.T) {
	for _, args := range [][]string{{"--durability", "memory"}, {"--replicas", "2"}, {"--copies", "4"}, {"--etcd", "/bin/true", "--globalfs", "/no/such/program"}} {
		var out, err bytes.Buffer
		code := Main(append([]string{"mount"}, args...), &out, &err)
		require.Equal(t, command.ExitInput, code, "%v: %s", args, err.String())
		require.Contains(t, err.String(), "give ")
	}
}
