package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/objects/objectstest"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/test/bubble"
)

// startSoon starts a server; it retries while the lease of another process holds the name.
func (w *world) startSoon(name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		p, err := w.tryStart(w.t.Context(), name, w.file)
		if registryTaken(err) {
			return false
		}
		require.NoError(w.t, err)
		w.running[name] = p
		return true
	}, soon, 100*time.Millisecond)
}

// Replicas are replaced one after the other: after two replacements at once, no majority of the partition
// would have the state.
func TestReplacementsKeepAMajority(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 5)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 5)
	require.Equal(t, "westa", a.Cluster().Partitions[1].Replicas[0].Server)
	w.halt("westd")
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Replace, Partition: 1, Server: "westa", To: "westd"}, &Changed{}))
	second := Request{Op: Replace, Partition: 1, Server: "westb", To: "weste"}
	require.ErrorContains(t, a.Ask(t.Context(), "", &second, &Changed{}), errNoMajority.Error())
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Drain, Server: "westb"}, &Changed{}), errNoMajority.Error())
	w.start("westd")
	require.Eventually(t, func() bool { return a.Ask(t.Context(), "", &second, &Changed{}) == nil }, soon, 100*time.Millisecond)
	awaitHealthy(t, a)
	a.refresh(t.Context())
	c.Update(a.Cluster())
	files.check(t, c, root)
	files.write(t, c, root, 5)
}

// The only replica of a partition cannot move: a new replica could not get the state from any other.
func TestTheOnlyReplicaStays(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.file.Replicas, w.file.Copies = 1, 1
	w.startAll()
	a := w.operator()
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Replace, Partition: 1, Server: "westa"}, &Changed{}), errNoMajority.Error())
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Drain, Server: "westa"}, &Changed{}), errNoMajority.Error())
}

// A replica can be replaced by another one on its own server: the old replica stops before the new one gets
// its directory.
func TestReplaceInPlace(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 5)
	for range 2 {
		require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Replace, Partition: 1, Server: "westb", To: "westb"}, &Changed{}))
		files.write(t, c, root, 5)
		awaitHealthy(t, a)
	}
	aside := func() (names []string) {
		entries, err := os.ReadDir(w.dir("westb"))
		require.NoError(t, err)
		for _, e := range entries {
			if strings.Contains(e.Name(), ".process-") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	require.Eventually(t, func() bool { return len(aside()) == 0 }, soon, 100*time.Millisecond, "what they left is deleted")
	w.halt("westa")
	a.refresh(t.Context())
	c.Update(a.Cluster())
	files.check(t, c, root)
}

// If no server has its disk mounted, all servers wait for the disks, and no replica is replaced.
func TestDisksThatAreNotMounted(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	files, root := contents{}, a.Cluster().Partitions[1].Root()
	files.write(t, w.client(a), root, 5)
	mounted := w.file.DataDir
	for name := range w.file.Addresses {
		w.halt(name)
	}
	w.file.DataDir = t.TempDir()
	failed := make(chan error)
	for name := range w.file.Addresses {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := w.tryStart(ctx, name, w.file)
			failed <- err
		}()
	}
	for range w.file.Addresses {
		require.Error(t, <-failed)
	}
	w.file.DataDir = mounted
	for name := range w.file.Addresses {
		w.startSoon(name)
	}
	again := w.operator()
	require.Empty(t, again.Cluster().Replaced)
	files.check(t, w.client(again), root)
}

// No other cluster is created in a registry that was emptied: servers continue with their copy, and a new
// server is refused.
func TestRegistryThatForgot(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	files, root := contents{}, a.Cluster().Partitions[1].Root()
	files.write(t, w.client(a), root, 5)
	for name := range w.file.Addresses {
		w.halt(name)
	}
	w.file.Registry.Endpoints = []string{registrytest.Start(t).Endpoint()}
	w.start("westa", "westb")
	fresh := w.file
	fresh.DataDir = t.TempDir()
	_, err := w.tryStart(t.Context(), "westc", fresh)
	require.ErrorIs(t, err, errRegistryLost)
	files.check(t, w.client(w.operator()), root)
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &Changed{}), "found")
	r, err := openRegistry(&w.file, quiet())
	require.NoError(t, err)
	_, err = r.Load(t.Context())
	require.ErrorIs(t, err, registry.ErrNotFound)
	// An old description is put back: a server with a newer one does not adopt it.
	_, _, err = r.Bootstrap(t.Context(), a.known.current.Load().copyYAML(1))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	s := w.running["westa"].Server
	d := *s.known.current.Load()
	d.spec.Version = 1 << 40
	s.known.current.Store(&d)
	require.ErrorContains(t, a.Ask(t.Context(), "westa", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &Changed{}), errRegistryLost.Error())
}

// copyYAML returns the description with another version.
func (d *description) copyYAML(version uint64) []byte {
	spec := d.copySpec()
	spec.Version = version
	return spec.YAML()
}

// updates are the clusters that a follower was notified of.
type updates chan *topology.Cluster

func (u updates) Update(c *topology.Cluster) { u <- c }
func (u updates) Outdated() <-chan struct{}  { return nil }

// A client is notified of a change even if its process has learnt of it otherwise, for example from a status
// call.
func TestFollowTellsWhatOthersLearnt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		file := DefaultFile()
		spec, err := topology.ParseSpec(addressedSpec(&file))
		require.NoError(t, err)
		spec.Version = 1
		logger := slog.New(slog.DiscardHandler)
		a := &Access{cfg: AccessConfig{Timeout: time.Second, Logger: logger}, client: transport.Dial(transport.Config{Logger: logger})}
		require.NoError(t, a.client.Close()) // so that no server is asked
		require.NoError(t, a.take(&Description{Spec: string(spec.YAML()), Version: 1}))
		ctx, stop := context.WithCancel(t.Context())
		received := make(updates, 10)
		go a.Follow(ctx, received)
		<-received
		plan, err := spec.Plan()
		require.NoError(t, err)
		spec.Replace(plan, plan.Partitions[0].Replicas[0].Process, "")
		require.NoError(t, a.take(&Description{Spec: string(spec.YAML()), Version: 2}))
		time.Sleep(3 * followEvery)
		require.Len(t, received, 1)
		require.Len(t, (<-received).Replaced, 1)
		stop()
	})
}

// A server waits for a bucket that does not exist yet. Once it has seen the bucket, it accepts no other one
// in its place.
func TestBucketsOfAServer(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	storage := objectstest.Start(t, t.TempDir())
	w.file.Objects = &topology.Objects{Bucket: topology.Bucket{Endpoint: storage.Endpoint(), Bucket: "later", Region: "us-east-1", PathStyle: true}}
	_, err := w.tryStart(t.Context(), "westa", w.file)
	require.ErrorContains(t, err, "later")
	bucket := filepath.Join(storage.Dir, "later")
	require.NoError(t, os.Mkdir(bucket, 0o755))
	w.start("westa")
	w.halt("westa")
	w.start("westa")
	w.halt("westa")
	require.NoError(t, os.Rename(bucket, bucket+"-away"))
	require.NoError(t, os.Mkdir(bucket, 0o755))
	_, err = w.tryStart(t.Context(), "westa", w.file)
	require.ErrorContains(t, err, "has nothing of this cluster")
	require.NoError(t, os.RemoveAll(bucket))
	require.NoError(t, os.Rename(bucket+"-away", bucket))
	w.start("westa")
}

// Hosts that accept connections and do not answer delay the status once together, not once each.
func TestStatusWithHangingServers(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 5)
	w.startAll()
	a := w.operator()
	for _, name := range []string{"westb", "westc", "westd", "weste"} {
		w.halt(name)
		l, err := net.Listen("tcp", w.file.Addresses[name])
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}
	a.cfg.Timeout = 2 * time.Second
	start := time.Now()
	answers := a.Status(t.Context())
	require.Less(t, time.Since(start), 2*a.cfg.Timeout+time.Second)
	require.Empty(t, answers[0].Error)
	h := Judge(a.Name(), answers, a.Cluster())
	require.Equal(t, "down", h.Servers[1].State)
	start = time.Now()
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: MoveLeader, Partition: 1}, &Changed{}))
	require.Less(t, time.Since(start), 2*a.cfg.Timeout+time.Second)
}

// The status of a server that still runs names a partition without a majority, and the time since it last
// answered, even if no client uses the partition. The partition is healthy again once it answers.
func TestPartitionNotAnswering(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	awaitHealthy(t, a)
	w.halt("westb")
	w.halt("westc")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		said := fmt.Sprint(Judge(a.Name(), a.Status(t.Context()), a.Cluster()).Problems)
		assert.Regexp(c, `PARTITION_BLOCKED: partition 1 .* takes no updates, for \d+s: no replica on westb, westc`, said)
	}, 2*soon, 200*time.Millisecond)
	w.start("westb", "westc")
	awaitHealthy(t, a)
}

// A status request to a server that stops gets an answer or an error.
func TestStatusWhileItStops(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	w.startAll()
	s := w.running["westa"].Server
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				s.Status(ctx)
				_ = s.Unready(ctx)
			}
		})
	}
	w.halt("westa")
	stop()
	asking.Wait()
}

// A server with a failed start leaves no files open.
func TestFailedStartLeavesNothingOpen(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	file := w.file
	file.GC.Sweep = -time.Second
	_, err := w.tryStart(t.Context(), "westa", file)
	require.ErrorContains(t, err, "background work")
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		at, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // it may be closed by now
		require.False(t, strings.HasPrefix(at, w.file.DataDir), at)
	}
	w.startSoon("westa")
}
