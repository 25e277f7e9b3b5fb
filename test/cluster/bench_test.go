package cluster

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// compared is a row of `globalfs bench mount`.
type compared struct {
	Measure    string   `json:"measure"`
	Directory  string   `json:"directory"`
	Operations int      `json:"operations"`
	Commands   *float64 `json:"commands"`
	CPU        []struct {
		Name string `json:"name"`
	} `json:"cpu"`
}

// `globalfs bench mount` finds the processes of a mount and of its cluster, and starts a loopback file
// system. It leaves no files and mounts behind, even after an interrupt.
func TestBenchMount(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 1, Replicas: 1, Copies: 1})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	dir, disk, tmp := filepath.Join(m.Dir, "west"), t.TempDir(), t.TempDir()
	args := []string{"bench", "mount", "--rounds", "1", "--clients", "1", "--files", "20", "--size", "1M", "--loopback", disk, "globalfs=" + dir, "-o", "json"}
	left := func() {
		for _, where := range []string{dir, disk, tmp} {
			entries, err := os.ReadDir(where)
			require.NoError(t, err)
			require.Empty(t, entries)
		}
	}
	t.Setenv("TMPDIR", tmp)
	out, err := c.Run(t.Context(), append(args, "--measures", "create,unlink")...)
	require.NoError(t, err)
	left()
	var rows []compared
	require.NoError(t, json.Unmarshal([]byte(out), &rows), out)
	require.Len(t, rows, 4)
	for i, r := range rows {
		require.Equal(t, []string{"create", "unlink"}[i/2], r.Measure)
		require.Equal(t, 20, r.Operations)
		if i%2 == 0 {
			require.Equal(t, "loopback", r.Directory)
			require.Equal(t, "loopback", r.CPU[0].Name)
			continue
		}
		require.Equal(t, "globalfs", r.Directory)
		require.Positive(t, *r.Commands)
		require.Len(t, r.CPU, 2)
		require.Equal(t, "mount", r.CPU[0].Name)
		require.Equal(t, "westa", r.CPU[1].Name)
	}

	cmd := c.on(t.Context(), "", append(args, "--rounds", "100000")...)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) > 0
	}, patience, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Contains(t, said.String(), "interrupted, there is no result")
	left()
}
