package dev

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// contents are files in a directory with their written content.
type contents struct {
	client *attach.Client
	dir    posix.Ino

	mu    sync.Mutex
	files map[string]string // GUARDED_BY mu
}

func content(n int) string {
	b := make([]byte, 5000+n%7*60_000)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b)
	return string(b)
}

// fill writes files until ctx ends, and records acknowledged writes in files.
func (f *contents) fill(ctx context.Context, t *testing.T, from int) {
	for n := from; ctx.Err() == nil; n++ {
		name, text := fmt.Sprintf("file-%d", n), content(n)
		write(t, f.client, f.dir, name, text)
		f.mu.Lock()
		f.files[name] = text
		f.mu.Unlock()
	}
}

// check reads all files through a client with none of them in memory.
func (f *contents) check(t *testing.T, c *attach.Client) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(t, f.files)
	for name, text := range f.files {
		require.True(t, read(t, c, f.dir, name) == text, "%s", name)
	}
}

// awaitWhole waits until every server of the first region has completed a round of repair without work, at
// least two RepairIntervals after the call.
func awaitWhole(t *testing.T, c *Cluster, a *daemon.Access) {
	t.Helper()
	now, region := time.Now(), c.Plan.Regions[0]
	require.Eventually(t, func() bool {
		servers, version := storage(t, a, region), planNow(t, c).StorageVersion(region)
		for _, s := range servers {
			if s == nil || s.Status == nil || s.State != "" {
				return false
			}
			last := s.Status.Repair.Last
			if !last.Complete || last.Version != version || last.Missing+last.Strays > 0 || last.FinishedAt.Before(now.Add(2*blocktest.Impatient().RepairInterval)) {
				return false
			}
		}
		return true
	}, 60*time.Second, 100*time.Millisecond)
}

// copies counts the copies of blocks in the first region, and the blocks.
func copies(t *testing.T, a *daemon.Access, cl *attach.Client) (copies, blocks uint64) {
	t.Helper()
	for _, s := range storage(t, a, cl.Regions[0].Name) {
		copies += s.Blocks
	}
	for _, err := range cl.Regions[0].Store.Range(t.Context(), block.ID{}, block.LastID) {
		require.NoError(t, err)
		blocks++
	}
	return copies, blocks
}

// Storage servers join, leave, die and lose their disks while files are written. No acknowledged write is
// lost, and in the end each block has all its copies.
func TestStorageServersComeAndGo(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions = cfg.Spec.Regions[:1]
	cfg.GRPC, cfg.Healing = true, blocktest.Impatient()
	region := cfg.Spec.Regions[0]
	var f *contents
	t.Run("change", func(t *testing.T) {
		c := start(t, cfg)
		f = &contents{client: in(t, c, region), dir: c.Plan.Partitions[1].Root(), files: map[string]string{}}
		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		for n := range 2 {
			writing.Go(func() { f.fill(ctx, t, n*1000) })
		}
		a, leaves := operator(t, c), c.Plan.Servers[0].Name
		joined, another := join(t, c, a, region), join(t, c, a, region)
		awaitWhole(t, c, a)

		drain(t, a, leaves)
		require.Error(t, a.Ask(t.Context(), "", &daemon.Request{Op: daemon.Drain, Server: leaves}, &daemon.Changed{}))
		require.Eventually(t, func() bool { return c.runs(leaves) == nil }, 60*time.Second, 100*time.Millisecond)
		require.Len(t, storage(t, a, region), 4)

		c.stopServers(joined)
		require.Eventually(t, func() bool { // the others consider it down
			servers := storage(t, a, region)
			last := servers[len(servers)-1]
			return last != nil && slices.Contains(last.Down, joined)
		}, 30*time.Second, 100*time.Millisecond)
		require.NoError(t, os.RemoveAll(filepath.Join(cfg.Dir, joined, "blocks")))
		require.NoError(t, c.startServer(t.Context(), joined))
		awaitWhole(t, c, a)
		c.stopServers(another)
		f.check(t, in(t, c, region))
		require.NoError(t, c.startServer(t.Context(), another))
		stop()
		writing.Wait()
		awaitWhole(t, c, a)
		f.check(t, in(t, c, region))
		n, blocks := copies(t, a, f.client)
		require.Equal(t, 2*blocks, n, "each block has two copies")
	})
	t.Run("restart", func(t *testing.T) {
		c := start(t, cfg)
		f.check(t, in(t, c, region))
		require.Len(t, storage(t, operator(t, c), region), 4)
		require.EqualValues(t, 5, c.Plan.StorageVersion(region))
	})
}

// Only unused blocks are deleted: after files were overwritten, truncated, removed, moved between regions and
// not written at all, each region has exactly the blocks of its files.
func TestGarbageGoes(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions = cfg.Spec.Regions[:2]
	c := start(t, cfg)
	cl := in(t, c, cfg.Spec.Regions[0])
	g, err := c.Collector(cl)
	require.NoError(t, err)
	global, here, there := c.Plan.Partitions[0].Root(), c.Plan.Partitions[1].Root(), c.Plan.Partitions[2].Root()
	big := content(6)
	for n, dir := range []posix.Ino{global, here, there} {
		for _, name := range []string{"kept", "removed", "cut", "overwritten", "moved", "moved-and-removed"} {
			write(t, cl, dir, name, content(n)+big)
		}
	}
	root := posix.Cred{}
	lookup := func(dir posix.Ino, name string) posix.Attr {
		a, err := cl.Lookup(t.Context(), dir, name)
		require.NoError(t, err)
		return a
	}
	for _, dir := range []posix.Ino{global, here, there} {
		require.NoError(t, cl.Unlink(t.Context(), root, client.Name{Dir: dir, Name: "removed"}))
		_, err = cl.SetAttr(t.Context(), root, lookup(dir, "cut").Ino, meta.SetSize, posix.Attr{Size: 10})
		require.NoError(t, err)
		_, err = cl.Write(t.Context(), root, client.Write{Ino: lookup(dir, "overwritten").Ino, Data: []byte(big)})
		require.NoError(t, err)
	}
	move := func(from, to posix.Ino, name string) {
		require.NoError(t, cl.Rename(t.Context(), root, client.Name{Dir: from, Name: name}, client.Name{Dir: to, Name: name + "-here"}, 0))
	}
	move(here, there, "moved")
	move(there, global, "moved")
	move(global, here, "moved")
	move(here, there, "moved-and-removed")
	require.NoError(t, cl.Unlink(t.Context(), root, client.Name{Dir: there, Name: "moved-and-removed-here"}))
	late, end := context.WithCancel(t.Context())
	end()
	_, err = cl.Write(late, root, client.Write{Ino: lookup(here, "kept").Ino, Data: []byte(big)})
	require.Error(t, err)
	orphan := posix.MakeBlockID(2, 12345, 1) // of a session that has ended
	require.NoError(t, cl.Regions[1].Store.Put(t.Context(), block.New(orphan, []byte(big))))

	var r collector.Report
	live := func(p int) uint64 { return r.Partitions[p].Live.Blocks }
	clean := func() bool {
		r, err = g.Once(t.Context(), 0, false)
		require.NoError(t, err)
		require.True(t, r.Complete(), "%+v", r)
		dropped := uint64(0)
		for _, p := range r.Partitions {
			dropped += p.Dropped.Blocks
		}
		return dropped == 0 && r.Regions[0].Orphans.Blocks+r.Regions[1].Orphans.Blocks == 0
	}
	require.Eventually(t, func() bool {
		// Of each directory: kept, cut, moved and two of overwritten; of two of them moved-and-removed, which
		// was not moved.
		return clean() && live(0) == 6 && live(1) == 5 && live(2) == 6
	}, 90*time.Second, time.Second, "%+v", &r)
	require.GreaterOrEqual(t, r.Regions[0].Seen, live(0)+live(1))
	require.GreaterOrEqual(t, r.Regions[1].Seen, live(0)+live(2))
	for dir, names := range map[posix.Ino][]string{global: {"kept", "moved-here"}, here: {"kept", "moved-here"}, there: {"kept", "moved-here"}} {
		for _, name := range names {
			fresh := in(t, c, cfg.Spec.Regions[1])
			require.Contains(t, read(t, fresh, dir, name), big)
		}
	}
}

// A server that has left is removed, and the others are informed, even if that fails for a while.
func TestServerLeavesThoughItCannotBeToldAtOnce(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions, cfg.Healing = cfg.Spec.Regions[:1], blocktest.Impatient()
	c := start(t, cfg)
	a := operator(t, c)
	name := join(t, c, a, cfg.Spec.Regions[0])
	awaitWhole(t, c, a)
	drain(t, a, name)
	require.Eventually(t, func() bool {
		for _, s := range c.Plan.Servers {
			if statusOf(t, c, s.Storage).Members.Version != 3 {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond)
	var inTheWay []string // paths that block the files of newer members
	for _, s := range append(c.Plan.Servers, topology.Server{Name: name}) {
		path := filepath.Join(cfg.Dir, s.Name, "members.json.new")
		require.Eventually(t, func() bool { // fails while the server is saving
			return os.Mkdir(path, 0o700) == nil
		}, 30*time.Second, time.Millisecond)
		inTheWay = append(inTheWay, path)
	}
	require.Eventually(t, func() bool { // the description has it as left
		return planNow(t, c).Server(name).State == topology.StorageLeft
	}, 30*time.Second, 10*time.Millisecond)
	for _, path := range inTheWay {
		require.NoError(t, os.RemoveAll(path))
	}
	require.Eventually(t, func() bool {
		return c.runs(name) == nil && statusOf(t, c, c.Plan.Servers[0].Storage).Members.Version == 4
	}, 30*time.Second, 100*time.Millisecond)
}

// A server is removed only after all others know that it leaves: a server without this knowledge might still
// rely on it.
func TestServerLeavesOnceAllKnow(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions, cfg.Healing = cfg.Spec.Regions[:1], blocktest.Impatient()
	c := start(t, cfg)
	a := operator(t, c)
	name := join(t, c, a, cfg.Spec.Regions[0])
	awaitWhole(t, c, a)
	deaf, leaves := c.Plan.Servers[2].Storage, planNow(t, c).Server(name).Storage
	c.network.(*memory).local.Cut(func(a, b multicast.ProcessID) bool { return a == deaf || b == deaf })
	drain(t, a, name)
	require.Eventually(t, func() bool { return statusOf(t, c, leaves).Drained }, 60*time.Second, 10*time.Millisecond)
	require.Never(t, func() bool { return planNow(t, c).Server(name).State == topology.StorageLeft }, 8*time.Second, 100*time.Millisecond)
	c.network.(*memory).local.Cut(nil)
	require.Eventually(t, func() bool { return c.runs(name) == nil }, 30*time.Second, 100*time.Millisecond)
	require.Equal(t, topology.StorageLeft, planNow(t, c).Server(name).State)
}

// A server that hangs does not make the others consider each other down. The output of df does not depend on
// the number of servers that share the disk.
func TestOneServerHangs(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions, cfg.Healing = cfg.Spec.Regions[:1], blocktest.Impatient()
	c := start(t, cfg)
	cl := in(t, c, cfg.Spec.Regions[0])
	before, err := cl.StatFS(t.Context(), posix.Root)
	require.NoError(t, err)
	join(t, c, operator(t, c), cfg.Spec.Regions[0])
	after, err := cl.StatFS(t.Context(), posix.Root)
	require.NoError(t, err)
	require.InEpsilon(t, before.Free, after.Free, 0.1)

	hung := c.Plan.Servers[2].Storage
	c.network.(*memory).local.Cut(func(a, b multicast.ProcessID) bool { return a == hung || b == hung })
	down := func(s int) []multicast.ProcessID { return statusOf(t, c, c.Plan.Servers[s].Storage).Down }
	require.Eventually(t, func() bool { return len(down(0)) > 0 && len(down(1)) > 0 }, 30*time.Second, 10*time.Millisecond)
	for range 300 {
		require.Equal(t, []multicast.ProcessID{hung}, down(0))
		require.Equal(t, []multicast.ProcessID{hung}, down(1))
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// The metrics do not contain a server that has left.
func TestMetricsOfAServerThatHasLeft(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Spec.Regions, cfg.Healing = cfg.Spec.Regions[:1], blocktest.Impatient()
	c := start(t, cfg)
	scrape := func() string {
		w := httptest.NewRecorder()
		c.Metrics().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	a := operator(t, c)
	name := join(t, c, a, cfg.Spec.Regions[0])
	require.Contains(t, scrape(), name)
	for _, of := range []string{"replica_leads", "replica_seated", "replica_applied_total", "replica_age_seconds", "log_append_seconds_count"} {
		require.Contains(t, scrape(), "globalfs_"+of+`{partition="1",region="us-west-2",server="us-west-2a"}`)
	}
	queries := regexp.MustCompile(`globalfs_replica_request_seconds_count{kind="query",partition="1",region="us-west-2",server="us-west-2[abc]"} [1-9]`)
	require.Eventually(t, func() bool { return queries.MatchString(scrape()) }, time.Minute, 10*time.Millisecond)
	drain(t, a, name)
	require.Eventually(t, func() bool { return c.runs(name) == nil }, 60*time.Second, 100*time.Millisecond)
	require.NotContains(t, scrape(), name)
}
