package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// requireLinks waits until each server reports how the servers that run are connected to it.
func (c *Cluster) requireLinks(t *testing.T, want map[string]string) {
	t.Helper()
	var got map[string]string
	defer func() { t.Logf("links: %v", got) }()
	require.Eventually(t, func() bool {
		out, err := c.Admin(t.Context(), "status", "-o", "json")
		var health struct {
			Servers []struct {
				Name  string `json:"name"`
				Links []struct {
					Peer   string `json:"peer"`
					Fabric string `json:"fabric"`
				} `json:"links"`
			} `json:"servers"`
		}
		if out == "" || json.Unmarshal([]byte(out), &health) != nil {
			t.Logf("status: %v", err)
			return false
		}
		got = map[string]string{}
		for _, s := range health.Servers {
			var links []string
			for _, l := range s.Links {
				links = append(links, l.Peer+" "+l.Fabric)
			}
			got[s.Name] = strings.Join(links, ", ")
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, 2*patience, patience/100, "want links: %v", want)
}

// mapsSharedMemory reports whether a process uses shared memory.
func mapsSharedMemory(t *testing.T, p *Process) bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.PID()))
	require.NoError(t, err)
	return strings.Contains(string(maps), "globalfs-shm")
}

// The processes of one host use shared memory, for links and for the calls of mounts, come back to it after
// kill -9, and use TCP with a server that has it off.
func TestFabric(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"))
	require.NoError(t, err)
	file := filepath.Join(m.Dir, "west", "file")
	content := strings.Repeat("0123456789abcdef", 200_000)
	work := func(what string) {
		require.NoError(t, os.WriteFile(file, []byte(what+content), 0o644), what)
		got, err := os.ReadFile(file)
		require.NoError(t, err, what)
		require.Equal(t, what+content, string(got))
	}
	work("start")
	all := map[string]string{"westa": "westb shm, westc shm", "westb": "westa shm, westc shm", "westc": "westa shm, westb shm"}
	c.requireLinks(t, all)
	require.True(t, mapsSharedMemory(t, m.Process))

	c.Servers["westb"].Kill()
	work("without westb")
	require.NoError(t, c.Servers["westb"].Start(t.Context()))
	work("with westb")
	c.requireLinks(t, all)

	require.NoError(t, c.Servers["westc"].Stop())
	text, err := os.ReadFile(c.file())
	require.NoError(t, err)
	require.Contains(t, string(text), "\nfabric: auto\n")
	require.NoError(t, os.WriteFile(c.file(), []byte(strings.Replace(string(text), "\nfabric: auto\n", "\nfabric: off\n", 1)), 0o644))
	require.NoError(t, c.Servers["westc"].Start(t.Context()))
	work("with TCP to westc")
	c.requireLinks(t, map[string]string{"westa": "westb shm, westc tcp", "westb": "westa shm, westc tcp", "westc": "westa tcp, westb tcp"})
	require.False(t, mapsSharedMemory(t, c.Servers["westc"]))
}
