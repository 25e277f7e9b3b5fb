package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
)

// Other processes cannot read the files of servers that communicate in memory. The commands say so at once.
func TestServersInMemory(t *testing.T) {
	_, config := clusterHere(t, 0)
	repository := filepath.Join(t.TempDir(), "backups")
	require.Contains(t, fails(t, command.ExitInput, "backup", "create", repository, "--config", config), "'globalfs dev --transport grpc'")
}

// The error names the cluster file and each address of a cluster that does not answer.
func TestUnreachableCluster(t *testing.T) {
	t.Chdir(t.TempDir())
	run(t, "init", "--regions", "a", "--datacenters", "1", "--loopback", "1", "--certificates", "")
	said := fails(t, command.ExitFailure, "status", "--connect-timeout", "100ms")
	require.Equal(t, "globalfs: cluster file ./cluster.yaml: no server of the cluster answers in 100ms (127.0.0.1:1: connection refused): check that the servers run and can be reached\n", said)
	began := time.Now()
	said = fails(t, command.ExitFailure, "status", "--wait", "100ms", "--servers", "127.0.0.1:1,127.0.0.1:2")
	require.Contains(t, said, "in 100ms (127.0.0.1:1, 127.0.0.1:2: connection refused): check")
	require.Less(t, time.Since(began), 8*time.Second, "the default of --connect-timeout is longer")
	text, err := os.ReadFile("cluster.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("other.yaml", []byte(strings.Replace(string(text), "name:", "nme:", 1)), 0o600))
	require.Contains(t, fails(t, command.ExitInput, "status", "--config", "other.yaml"), "other.yaml")
}

// Commands about a mounted tree refuse a path that is on no mount.
func TestOnNoMount(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	for _, name := range []string{"where", "info", "du", "summary", "warmup", "token", "sync", "gc"} {
		require.Contains(t, fails(t, command.ExitFailure, name, dir), "not on a GlobalFS mount: 'findmnt", name)
	}
	require.Contains(t, fails(t, exitUnable, "fsck", dir), "not on a GlobalFS mount: 'findmnt")
	require.Contains(t, fails(t, command.ExitFailure, "place", "--list", dir), "not on a GlobalFS mount: 'findmnt")
	require.Contains(t, fails(t, command.ExitFailure, "wait", "token", dir), "not on a GlobalFS mount: 'findmnt")
}
