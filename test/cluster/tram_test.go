package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// tramWork makes files until it is stopped.
type tramWork struct {
	dir  string
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	made map[string]string // content by name, of files whose making has succeeded
	ends []time.Time       // when each file was made
	errs []error
}

func beginTramWork(dir string) *tramWork {
	w := &tramWork{dir: dir, stop: make(chan struct{}), made: map[string]string{}}
	for worker := range 3 {
		w.done.Go(func() { w.run(worker) })
	}
	return w
}

func (w *tramWork) run(worker int) {
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			return
		default:
		}
		name := fmt.Sprintf("f-%d-%d", worker, n)
		content := strings.Repeat(name+" ", 1+n%40*50) // the longest entries have several pieces
		err := os.WriteFile(filepath.Join(w.dir, name+"-"), []byte(content), 0o644)
		if err == nil {
			err = os.Rename(filepath.Join(w.dir, name+"-"), filepath.Join(w.dir, name))
		}
		w.mu.Lock()
		if err == nil {
			w.made[name] = content
			w.ends = append(w.ends, time.Now())
		} else {
			w.errs = append(w.errs, err)
		}
		w.mu.Unlock()
	}
}

func (w *tramWork) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.made)
}

// gap returns the longest time since an event in which no file was made.
func (w *tramWork) gap(since time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.ends {
		if at.After(since) {
			longest, since = max(longest, at.Sub(since)), at
		}
	}
	return longest
}

// advance waits until some more files are made.
func (w *tramWork) advance(t *testing.T, what string) {
	t.Helper()
	before, began := w.count(), time.Now()
	require.Eventually(t, func() bool { return w.count() > before+20 }, 2*patience, 10*time.Millisecond, what)
	t.Logf("%s: 20 files after %v", what, time.Since(began).Round(time.Millisecond))
}

// end stops the work and compares the files with those that were made.
func (w *tramWork) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.done.Wait()
	require.Empty(t, w.errs)
	w.compare(t, w.dir)
}

func (w *tramWork) compare(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.Equal(t, w.made[e.Name()], string(content), e.Name())
	}
	require.Len(t, names, len(w.made), "files are missing, or there are others")
	slices.Sort(names)
	require.Len(t, slices.Compact(names), len(w.made), "a name is listed twice")
}

// tramCluster returns three servers of one region with certificates, the partitions of which are TRAM's, and
// a mount with files that are being made.
func tramCluster(t *testing.T, durability, memory string) (*Cluster, *tramWork) {
	c := startWith(t, Config{
		Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2, LocalOrder: "tram", Durability: durability,
		Memory: memory, RDMA: RDMADevices(),
	})
	m, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "tree"), "--delegate=none")
	require.NoError(t, err)
	dir := filepath.Join(m.Dir, "west", "work")
	require.NoError(t, os.Mkdir(dir, 0o755))
	w := beginTramWork(dir)
	w.advance(t, "all servers")
	return c, w
}

// finish ends the work. Another mount must see the same files after a token of the first one: its replica may
// have started just before.
func (w *tramWork) finish(t *testing.T, c *Cluster) {
	t.Helper()
	w.end(t)
	other, err := c.Mount(t.Context(), "west", "", filepath.Join(t.TempDir(), "other"))
	require.NoError(t, err)
	code, token := c.ranAs(t, "globalfs", "token", w.dir)
	require.Zero(t, code, token)
	code, said := c.ranAs(t, "globalfs", "wait", strings.TrimSpace(token), other.Dir)
	require.Zero(t, code, said)
	w.compare(t, filepath.Join(other.Dir, "west", "work"))
}

// TestTram: TRAM orders the partitions of a region, in memory that its servers share, or write through
// authenticated connections. Each server is killed under load, the first leader first, and comes back. No
// file is lost, changed or made twice.
func TestTram(t *testing.T) {
	kinds := map[string]string{"shm": "shm", "auto": "shm", "soft": "tcp"}
	if len(RDMADevices()) > 0 {
		kinds = map[string]string{"verbs": "verbs"}
	}
	for memory, kind := range kinds {
		t.Run(memory, func(t *testing.T) {
			c, w := tramCluster(t, "os", memory)
			c.requireMemory(t, kind)
			for _, name := range c.Names() {
				killed := time.Now()
				c.Servers[name].Kill()
				w.advance(t, "without "+name)
				t.Logf("no file for %v after kill -9 of %s", w.gap(killed).Round(time.Millisecond), name)
				require.NoError(t, c.Servers[name].Start(t.Context()))
				w.advance(t, "with "+name)
			}
			c.requireMemory(t, kind)
			w.finish(t, c)
		})
	}
}

// TestTramFabrics: with fabric: auto, the memory of a server that shares no memory is reached by TCP, in both
// directions, and the others share theirs.
func TestTramFabrics(t *testing.T) {
	c, w := tramCluster(t, "os", "")
	require.NoError(t, c.Servers["westc"].Stop())
	text, err := os.ReadFile(c.file())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.file(), []byte(strings.Replace(string(text), "\nfabric: auto\n", "\nfabric: off\n", 1)), 0o644))
	require.NoError(t, c.Servers["westc"].Start(t.Context()))
	w.advance(t, "with TCP to westc")
	c.requireMemories(t, map[string]int{"shm": 4, "tcp": 8}) // of two partitions
	c.Servers["westa"].Kill()
	w.advance(t, "without westa")
	require.NoError(t, c.Servers["westa"].Start(t.Context()))
	w.advance(t, "with westa")
	w.finish(t, c)
}

// TestTramUnplugged: the RDMA cable of each server in turn is unplugged, and plugged in again, while its
// connections by TCP live. Only the virtual machine of test/rdma has such cables.
func TestTramUnplugged(t *testing.T) {
	if os.Getenv("RDMA_VM") != "1" || len(RDMADevices()) < 3 {
		t.Skip("by design: test/rdma runs this in its virtual machine")
	}
	c, w := tramCluster(t, "os", "")
	for i, name := range c.Names() {
		port := fmt.Sprintf("rdma%d-sw", i+1)
		plug := func(to ...string) {
			out, err := exec.Command("ip", append([]string{"link", "set", port}, to...)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		plug("nomaster")
		w.advance(t, "without the cable of "+name)
		plug("master", "sw")
		w.advance(t, "with the cable of "+name)
	}
	c.requireMemory(t, "verbs")
	w.finish(t, c)
}

// requireMemory waits until all replicas reach the memory of all others by a kind of connection.
func (c *Cluster) requireMemory(t *testing.T, kind string) {
	t.Helper()
	c.requireMemories(t, map[string]int{kind: 12}) // three replicas of two partitions, with two peers each
}

// requireMemories waits until replicas reach the memory of others by numbers of connections of each kind.
func (c *Cluster) requireMemories(t *testing.T, kinds map[string]int) {
	t.Helper()
	var out string
	defer func() { t.Logf("status: %s", out) }()
	require.Eventually(t, func() bool {
		out, _ = c.Admin(t.Context(), "status", "--verbose")
		_, orders, _ := strings.Cut(out, "MEMORY THROUGH")
		for kind, count := range kinds {
			if strings.Count(orders, "("+kind+")") != count {
				return false
			}
		}
		return true
	}, 2*patience, patience/100)
}

// TestTramRestartsOfAll: all servers are killed at once and come back, with each entry on the disks of a
// majority.
func TestTramRestartsOfAll(t *testing.T) {
	c, w := tramCluster(t, "sync", "")
	for _, name := range c.Names() {
		c.Servers[name].Kill()
	}
	for _, name := range c.Names() {
		require.NoError(t, c.Servers[name].Launch())
	}
	for _, name := range c.Names() {
		require.NoError(t, c.Servers[name].AwaitReady(t.Context()))
	}
	w.advance(t, "after the restart of all")
	w.finish(t, c)
}

// TestTramDamage: a damaged log and a data directory that was put back to a copy are found. Other processes
// take the seats of the replicas. TestBitRot and TestRollback have more, with -cluster.order tram.
func TestTramDamage(t *testing.T) {
	v := newVictimOf(t, "tram")
	servers := v.Names()
	v.rot(t, servers[0], servers[1], "partition-1/log/*.wal", 0.5, []string{damaged, replaced})
	v.rollBack(t, servers[1])
	v.useWithout(t, servers[2])
}
