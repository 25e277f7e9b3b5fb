package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
)

func TestAdminWrongInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"join one":  {[]string{"admin", "join", "west"}, command.ExitUsage, "join: give a REGION and the new server's HOST:PORT"},
		"join port": {[]string{"admin", "join", "west", "nowhere"}, command.ExitInput, "give host:port"},
		"drain":     {[]string{"admin", "drain"}, command.ExitUsage, "drain: give one SERVER"},
		"output":    {[]string{"admin", "drain", "westa", "-o", "xml"}, command.ExitInput, "give text or json"},
		"partition": {[]string{"admin", "replace", "root", "westa"}, command.ExitInput, "give the number of a partition"},
		"no file":   {[]string{"admin", "drain", "westa", "--config", filepath.Join(t.TempDir(), "none")}, command.ExitInput, "no such file"},
	} {
		require.Contains(t, fails(t, c.code, c.args...), c.says, name)
	}
}

// An operator can change the servers of an embedded cluster like those of any other.
func TestAdminOfEmbeddedCluster(t *testing.T) {
	dir, config := clusterHere(t, 0)
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	file := filepath.Join(dir, "us-west-2", "file")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	admin := func(args ...string) []string { return append(append([]string{"admin"}, args...), "--config", config) }
	health := func() (h daemon.Health) {
		t.Helper()
		var out, errs bytes.Buffer
		code := Main([]string{"status", "-o", "json", "--config", config}, &out, &errs)
		require.Contains(t, []int{command.ExitOK, exitUnhealthy}, code, errs.String())
		require.NoError(t, json.Unmarshal(out.Bytes(), &h))
		return h
	}

	require.True(t, strings.HasPrefix(fails(t, command.ExitFailure, admin("join", "mars", "127.0.0.1:1")...), `globalfs: there is no region "mars"`))
	for _, args := range [][]string{{"drain", "us-west-2z"}, {"move-leader", "0", "us-west-2z"}} {
		require.Contains(t, fails(t, command.ExitFailure, admin(args...)...), `globalfs: there is no server "us-west-2z": give one of us-west-2a, us-west-2b`)
	}
	require.Contains(t, fails(t, command.ExitFailure, admin("drain", "us-west-2a")...), "let a new server join first")
	out := run(t, admin("join", "us-west-2", registrytest.FreeAddress(t))...)
	require.Equal(t, "it is started by the process that runs the other servers\nus-west-2d is in the cluster\n", out)
	eventually := func(done func(h daemon.Health) bool) {
		t.Helper()
		var last daemon.Health
		require.Eventually(t, func() bool {
			last = health()
			return done(last)
		}, 60*time.Second, 100*time.Millisecond, "%+v", &last)
	}
	eventually(func(h daemon.Health) bool { return h.Settled() && len(h.Servers) == 4 })

	require.Contains(t, run(t, admin("drain", "--wait", "us-west-2a")...), "us-west-2a is being drained")
	require.Contains(t, fails(t, command.ExitFailure, admin("drain", "us-west-2a")...), "us-west-2a")
	eventually(func(h daemon.Health) bool { return h.Settled() }) // its new replicas take part
	eventually(func(h daemon.Health) bool {
		if h.Settled() && h.Partitions[1].Leader == "us-west-2d" {
			return true
		}
		run(t, admin("move-leader", "1", "us-west-2d")...) // repeated until it leads: a request soon after an election may change nothing
		return false
	})

	require.Contains(t, fails(t, command.ExitFailure, admin("drain", "us-west-2b")...), "let a new server join first")
	h, blocks := health(), uint64(0)
	require.Len(t, h.Servers, 3, "the one that has left is not shown")
	for _, s := range h.Servers {
		blocks += s.Storage.Blocks
	}
	require.EqualValues(t, 3, blocks, "one copy of each")
	require.Regexp(t, `us-west-2d\s+ok\s+\d+`, run(t, "status", "--storage", "--config", config))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, content, got)
}

// The file of an embedded cluster cannot be used to start servers or to forget a cluster.
func TestServersOfEmbeddedClusterAreItsOwn(t *testing.T) {
	_, config := clusterHere(t, 0)
	for _, args := range [][]string{{"server", "us-west-2a"}, {"admin", "forget", "dev"}} {
		require.Contains(t, fails(t, command.ExitFailure, append(args, "--config", config)...), "'globalfs dev --data-dir", args)
	}
}
