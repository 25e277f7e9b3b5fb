package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/command"
	"github.com/globalfs/globalfs/internal/daemon"
)

// sick returns a cluster with one problem of each kind of line.
func sick() *daemon.Health {
	return &daemon.Health{
		Cluster: "test", Starting: []string{"server b looks through its blocks"},
		Problems: []daemon.Problem{
			{Level: daemon.LevelWarn, Code: daemon.ServerDown, Text: "server a does not answer", Details: []string{"connection refused"}},
			{Level: daemon.LevelErr, Code: daemon.PartitionBlocked, Text: "partition 1 takes no updates", CausedBy: []string{"a"}},
			{Level: daemon.LevelWarn, Code: daemon.PartitionWeak, Text: "partition 2 has no replica on a", CausedBy: []string{"a"}},
			{Level: daemon.LevelInfo, Code: daemon.ReplicaBehind, Text: "replicas on b"},
		},
	}
}

// Each problem has one line. Effects of other problems are shown only with --verbose.
func TestStatusLines(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, statusView{}.write(&out, sick()))
	require.True(t, strings.HasPrefix(out.String(), `cluster test: NOT HEALTHY
  WARN SERVER_DOWN: server a does not answer
  ERR  PARTITION_BLOCKED: partition 1 takes no updates
  INFO REPLICA_BEHIND: replicas on b
  INFO starting: server b looks through its blocks
  consequences of these, not shown: 1; 'globalfs status --verbose' shows them

SERVER`), out.String())
	out.Reset()
	require.NoError(t, statusView{verbose: true}.write(&out, sick()))
	require.Contains(t, out.String(), "server a does not answer\n         connection refused\n")
	require.Contains(t, out.String(), "has no replica on a\n         caused by a\n")
	require.NotContains(t, out.String(), "--verbose")
}

// With --verbose each partition has its order, and each replica of TRAM the state of its memory.
func TestStatusOfOrders(t *testing.T) {
	h := &daemon.Health{Cluster: "test", Healthy: true, Partitions: []daemon.PartitionHealth{
		{ID: 0, Order: "primcast", Leader: "a", Replicas: []daemon.ReplicaHealth{{Server: "a", Up: true}}},
		{ID: 1, Order: "tram", Replicas: []daemon.ReplicaHealth{
			{Server: "a", Up: true, Memory: &daemon.Memory{Fabrics: map[string]string{"b": "shm", "c": "tcp"}, Slots: 64, Used: 3, Credits: 60, Revocations: 2}},
			{Server: "b"},
		}},
	}}
	var out bytes.Buffer
	require.NoError(t, statusView{}.write(&out, h))
	require.NotContains(t, out.String(), "ORDER")
	require.NoError(t, statusView{verbose: true}.write(&out, h))
	require.Contains(t, out.String(), `
PARTITION  ORDER     LEADER  REPLICA  MEMORY THROUGH   SLOTS  CREDITS  REVOCATIONS
0          primcast  a       -        -                -      -        -
1          tram      -       a        b (shm) c (tcp)  3/64   60/64    2
`)
}

// Colours are used only on terminals, and not with NO_COLOR.
func TestColors(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminal here: ", err)
	}
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer file.Close()
	require.True(t, paletteFor(terminal).on)
	require.False(t, paletteFor(file).on)
	require.False(t, paletteFor(&bytes.Buffer{}).on)
	t.Setenv("TERM", "dumb")
	require.False(t, paletteFor(terminal).on)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	require.False(t, paletteFor(terminal).on)

	var out bytes.Buffer
	require.NoError(t, statusView{colors: palette{on: true}}.write(&out, sick()))
	require.Contains(t, out.String(), "cluster test: \x1b[1;31mNOT HEALTHY\x1b[0m\n  \x1b[33mWARN\x1b[0m SERVER_DOWN")
}

// A healthy cluster has no problems in JSON, either.
func TestStatusOfHealthyCluster(t *testing.T) {
	_, config := clusterHere(t, 0)
	out := run(t, "status", "--wait", "1m", "--settled", "-o", "json", "--config", config)
	var h daemon.Health
	require.NoError(t, json.Unmarshal([]byte(out), &h))
	require.True(t, h.Healthy)
	require.Contains(t, out, `"problems": []`)
	var value any
	require.NoError(t, json.Unmarshal([]byte(out), &value))
	require.True(t, snake(value), out)
	require.Regexp(t, `^cluster \S+: HEALTHY\n`, run(t, "status", "--config", config))
	require.Contains(t, fails(t, command.ExitInput, "status", "-o", "xml", "--config", config), "give text or json")
}
