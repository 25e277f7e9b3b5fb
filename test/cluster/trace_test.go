package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// traced is the part of the output of `globalfs trace` that the test reads.
type traced struct {
	Events []struct {
		AtUS     float64 `json:"at_us"`
		Where    string  `json:"where"`
		Thread   uint32  `json:"thread"`
		Executes bool    `json:"executes"`
		Commands []struct {
			Session uint64 `json:"session"`
			Seq     uint64 `json:"seq"`
		} `json:"commands"`
	} `json:"events"`
	Servers []struct {
		Error string `json:"error"`
	} `json:"servers"`
}

// `globalfs trace` shows the request of the kernel, the ordered command and its execution by each server. It
// leaves nothing behind.
func TestTrace(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 1})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	dir := filepath.Join(m.Dir, "west")
	args := []string{"trace", "--op", "mkdir", "--after", "2s", "-o", "json", dir}
	out, err := c.Admin(t.Context(), args...)
	require.NoError(t, err, out)
	var got traced
	require.NoError(t, json.Unmarshal([]byte(out), &got), out)
	requests, ordered := 0, map[[2]uint64]map[string]bool{}
	for i, e := range got.Events {
		require.True(t, i == 0 || e.AtUS >= got.Events[i-1].AtUS, "%d", i)
		if e.Where == "mount" && e.Thread != 0 {
			requests++
		}
		for _, command := range e.Commands {
			id := [2]uint64{command.Session, command.Seq}
			if e.Where == "mount" {
				ordered[id] = map[string]bool{}
			}
		}
	}
	require.Positive(t, requests)
	require.Len(t, ordered, 1, out)
	for _, e := range got.Events {
		for _, command := range e.Commands {
			if by := ordered[[2]uint64{command.Session, command.Seq}]; e.Executes && by != nil {
				by[e.Where] = true
			}
		}
	}
	for _, by := range ordered {
		require.Len(t, by, 3, out)
	}
	require.Len(t, got.Servers, 3)
	for _, s := range got.Servers {
		require.Empty(t, s.Error)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
