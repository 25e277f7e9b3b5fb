package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/topology"
)

// health returns the status of the cluster.
func (c *Cluster) health(t *testing.T) (h daemon.Health) {
	t.Helper()
	out, _ := c.Admin(t.Context(), "status", "-o", "json") // it fails while the cluster is not healthy
	if end := strings.LastIndex(out, "}"); end > 0 {
		_ = json.Unmarshal([]byte(out[:end+1]), &h)
	}
	return h
}

// awaitProblem waits until the status has a problem with a text.
func (c *Cluster) awaitProblem(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, p := range c.health(t).Problems {
			if strings.Contains(p.String(), text) {
				return true
			}
		}
		return false
	}, long, 200*time.Millisecond, text)
}

// awaitStarting waits until the replicas of an added partition are to run.
func (c *Cluster) awaitStarting(t *testing.T, partitions int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(c.health(t).Partitions) > partitions }, long, 20*time.Millisecond)
}

// awaitSpread waits until the partitions of a region spread directories over a number of partitions.
func (c *Cluster) awaitSpread(t *testing.T, region topology.Region, partitions int) {
	t.Helper()
	require.Eventually(t, func() bool {
		found := 0
		for _, p := range c.health(t).Partitions {
			if p.Region == region && p.State == "" && p.Spread == partitions {
				found++
			}
		}
		return found == partitions
	}, long, 200*time.Millisecond)
}

// A cluster is created with several partitions of its region: new directories are in all of them.
func TestPartitionsOfANewCluster(t *testing.T) {
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2, Partitions: 3})
	require.Len(t, c.health(t).Partitions, 4)
	dir := c.mountWith(t, c.Certs())
	places := map[string]bool{}
	for i := range 20 {
		name := filepath.Join(dir, "west", fmt.Sprint("d", i))
		require.NoError(t, os.Mkdir(name, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(name, "f"), []byte("x"), 0o644))
		out, err := c.Run(t.Context(), "where", filepath.Join(name, "f"))
		require.NoError(t, err)
		_, place, _ := strings.Cut(out, "region")
		place, _, _ = strings.Cut(place, "\n")
		places[strings.TrimSpace(place)] = true
	}
	require.Len(t, places, 3, places)
}

// busy makes directories with a file each until stop, which returns their number.
func busy(t *testing.T, dir string) (stop func() int) {
	t.Helper()
	ended := make(chan struct{})
	made, failed := 0, error(nil)
	var working sync.WaitGroup
	working.Go(func() {
		for ; failed == nil; made++ {
			select {
			case <-ended:
				return
			default:
			}
			name := filepath.Join(dir, fmt.Sprintf("d%d", made))
			if failed = os.Mkdir(name, 0o755); failed == nil {
				failed = os.WriteFile(filepath.Join(name, "file"), []byte(name), 0o644)
			}
		}
	})
	return func() int {
		close(ended)
		working.Wait()
		require.NoError(t, failed)
		return made
	}
}

// A partition is added while a mount works, servers are killed and etcd is away. New directories spread over
// it, and all files stay, also when all servers start again.
func TestAddPartition(t *testing.T) {
	t.Parallel()
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2})
	m, err := c.Mount(t.Context(), "west", "", t.TempDir(), "--timeout", "90s")
	require.NoError(t, err)
	west := filepath.Join(m.Dir, "west")
	work := busy(t, west)

	c.Servers["westc"].Kill()
	_, err = c.Admin(t.Context(), "admin", "add-partition", "west")
	require.ErrorContains(t, err, "all servers must know a new partition before it is used: westc does not answer")
	require.NoError(t, c.Servers["westc"].Start(t.Context()))
	_, err = c.Admin(t.Context(), "admin", "add-partition", "mars")
	require.ErrorContains(t, err, `no region "mars"`)

	// The addition continues after restarts of a server and of etcd, whatever step it had reached before.
	out, err := c.Admin(t.Context(), "admin", "add-partition", "west")
	require.NoError(t, err, out)
	require.Contains(t, out, "partition 2 (/west#2) is being added on west")
	c.Servers["westb"].Kill()
	out, err = c.Admin(t.Context(), "admin", "add-partition", "west")
	require.NoError(t, err, out)
	require.Contains(t, out, "partition 2 (/west#2) is being added already")
	out, err = c.Admin(t.Context(), "admin", "add-partition", "global")
	require.Error(t, err, "one at a time, and only if all servers run: %s", out)
	c.awaitProblem(t, "partition 2 (/west#2) is being added: westb does not answer")
	c.Etcd.Kill()
	require.NoError(t, c.Etcd.Start(t.Context()))
	require.NoError(t, c.Servers["westb"].Start(t.Context()))
	c.awaitStarting(t, 2)
	c.Servers["westa"].Kill() // it has a replica that is new
	require.NoError(t, c.Servers["westa"].Start(t.Context()))
	c.awaitSpread(t, "west", 2)
	require.Greater(t, work(), 10)

	for i := range 20 {
		require.NoError(t, os.Mkdir(filepath.Join(west, fmt.Sprintf("new%d", i)), 0o755))
		require.NoError(t, write(filepath.Join(west, fmt.Sprintf("new%d", i), "large"), random(byte(i), 100<<10)))
	}
	out, err = c.Run(t.Context(), append([]string{"where"}, glob(t, filepath.Join(west, "new*"))...)...)
	require.NoError(t, err)
	require.Contains(t, out, "partition 1")
	require.Contains(t, out, "partition 2")
	want := files(t, m.Dir)

	for _, s := range c.Servers {
		s.Kill()
	}
	c.startAll(t)
	require.Equal(t, want, files(t, m.Dir))
	out, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err, out)
}

// A region and the global level get a partition each. A backup has both, and is restored into a new cluster.
func TestRestoreGrown(t *testing.T) {
	t.Parallel()
	c := startWith(t, Config{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2})
	m, err := c.Mount(t.Context(), "west", "", t.TempDir(), "--timeout", "90s")
	require.NoError(t, err)
	for region, says := range map[string]string{"west": "(/west#2) is being added", "global": "(/#2) is being added"} {
		out, err := c.Admin(t.Context(), "admin", "add-partition", "--wait", region)
		require.NoError(t, err, out)
		require.Contains(t, out, says)
	}
	for i := range 10 {
		for _, dir := range []string{m.Dir, filepath.Join(m.Dir, "west")} {
			name := filepath.Join(dir, fmt.Sprintf("new%d", i))
			require.NoError(t, os.Mkdir(name, 0o755))
			require.NoError(t, write(filepath.Join(name, "large"), random(byte(i), 100<<10)))
		}
	}
	out, err := c.Run(t.Context(), append([]string{"where"}, append(glob(t, m.Dir+"/new*"), glob(t, m.Dir+"/west/new*")...)...)...)
	require.NoError(t, err)
	for partition := range 4 {
		require.Contains(t, out, fmt.Sprintf("partition %d", partition))
	}
	c.restoredGrown(t, m, files(t, m.Dir))
}

// restoredGrown loses the cluster, and restores it with its added partitions from a backup.
func (c *Cluster) restoredGrown(t *testing.T, m *Mount, want map[string]string) {
	t.Helper()
	repository := t.TempDir()
	made := c.backUp(t, repository)
	require.Len(t, made.Partitions, 4)
	require.NoError(t, m.Close())
	c.loseAll(t)
	out, err := c.Run(t.Context(), "restore", "metadata", "--from", repository, "--config", c.file())
	require.NoError(t, err, out)
	c.startAll(t)
	out, err = c.Admin(t.Context(), "restore", "blocks", "--from", repository)
	require.NoError(t, err, out)
	require.NoError(t, m.Start(t.Context()))
	require.Equal(t, want, files(t, m.Dir))
	c.awaitSpread(t, "west", 2)
	c.awaitSpread(t, "", 2)
	out, err = c.Run(t.Context(), "fsck", "--blocks", m.Dir)
	require.NoError(t, err, out)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return found
}
