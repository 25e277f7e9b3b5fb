package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/registry/registrytest"
	"github.com/globalfs/globalfs/internal/topology"
)

const soon = 30 * time.Second

// If several servers start at the same time, one of them creates the cluster. It is the same cluster at the
// next start.
func TestClusterIsBornOnce(t *testing.T) {
	w := newWorld(t, []topology.Region{"west", "east", "eu"}, 1)
	w.startAll()
	a := w.operator()
	born := a.Cluster().Identity()
	files := contents{}
	files.write(t, w.client(a), a.Cluster().Partitions[1].Root(), 5)
	files.check(t, w.client(a), a.Cluster().Partitions[1].Root())
	for _, answer := range a.Status(t.Context()) {
		require.Empty(t, answer.Error)
		require.Empty(t, answer.Status.Registry)
		require.Equal(t, 2, len(answer.Status.Replicas), "one of the global partition, one of its region's")
	}
	for name := range w.file.Addresses {
		w.halt(name)
	}
	w.startAll()
	again := w.operator()
	require.Equal(t, string(born), string(again.Cluster().Identity()))
	files.check(t, w.client(again), a.Cluster().Partitions[1].Root())
}

// A file with a different description of the cluster, a data directory of another cluster, and a second
// process of a running server are refused.
func TestRefusals(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	for name, c := range map[string]struct {
		server string
		change func(*File)
		want   string
	}{
		"another shape":               {"westb", func(f *File) { f.Copies, f.DataDir = 3, t.TempDir() }, "differ in what cannot be changed"},
		"no such server":              {"westz", func(*File) {}, "has no server of this name, only [westa westb westc]"},
		"the same directory":          {"westb", func(*File) {}, "is in use by another globalfs server"},
		"the same name":               {"westb", func(f *File) { f.DataDir = t.TempDir() }, "it runs already"},
		"no certificates":             {"westb", func(f *File) { f.Certificates, f.DataDir = t.TempDir(), t.TempDir() }, ""},
		"the registry is unavailable": {"westd", func(f *File) { f.Registry.Endpoints, f.DataDir = []string{"http://127.0.0.1:1"}, t.TempDir() }, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			file := w.file
			c.change(&file)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := w.tryStart(ctx, c.server, file)
			require.ErrorContains(t, err, c.want)
		})
	}
	w.halt("westb")
	require.NoError(t, os.RemoveAll(w.dir("westb")))
	require.NoError(t, os.Rename(w.dir("westa"), w.dir("westb"))) // westa runs on: its files are open
	require.Eventually(t, func() bool {                           // until the lease of westb has ended
		_, err := w.tryStart(t.Context(), "westb", w.file)
		require.Error(t, err)
		return !registryTaken(err)
	}, soon, 100*time.Millisecond)
	require.NoError(t, os.Rename(w.dir("westb"), w.dir("westa")))
}

func registryTaken(err error) bool { return err != nil && errors.Is(err, registry.ErrTaken) }

// Without the registry, files are served, and servers that ran before start again; a new server waits.
func TestWithoutRegistry(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 3)
	w.etcd.Stop(t)
	files.write(t, c, root, 3)
	w.halt("westb")
	w.start("westb")
	w.halt("westc")
	files.write(t, c, root, 3)
	files.check(t, c, root)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(a.Status(t.Context()), func(o Answer) bool { return o.Status.Registry != "" })
	}, soon, 100*time.Millisecond, "the status says it")
	require.Error(t, a.Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: "127.0.0.1:1"}, &Changed{}), "changes wait")

	w.etcd.Restart(t)
	w.start("westc")
	require.Eventually(t, func() bool {
		return a.Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &Changed{}) == nil
	}, soon, 100*time.Millisecond)
}

// A server that has lost its disk gets new replicas in the place of the old ones, and all data again. If the
// old disk comes back, its content is not used.
func TestLostDisk(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 10)
	before := a.Cluster()

	w.halt("westb")
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.Rename(w.dir("westb"), old))
	files.write(t, c, root, 10)
	require.Eventually(t, func() bool { // the lease of the lost one has to end
		p, err := w.tryStart(t.Context(), "westb", w.file)
		if registryTaken(err) {
			return false
		}
		require.NoError(t, err)
		w.running["westb"] = p
		return true
	}, soon, 100*time.Millisecond)
	awaitHealthy(t, a)
	now := a.Cluster()
	require.NotEqual(t, before.Partitions[1].Replicas, now.Partitions[1].Replicas)

	w.halt("westa") // the new one has to be part of the majority
	files.write(t, c, root, 5)
	files.check(t, c, root)
	w.start("westa")
	awaitHealthy(t, a)

	w.halt("westb")
	require.NoError(t, os.RemoveAll(w.dir("westb")))
	require.NoError(t, os.Rename(old, w.dir("westb")))
	require.Eventually(t, func() bool {
		p, err := w.tryStart(t.Context(), "westb", w.file)
		if registryTaken(err) {
			return false
		}
		require.NoError(t, err)
		w.running["westb"] = p
		return true
	}, soon, 100*time.Millisecond)
	awaitHealthy(t, a)
	w.halt("westa")
	files.write(t, c, root, 5)
	files.check(t, c, root)
}

// awaitHealthy waits until there are no problems.
func awaitHealthy(t *testing.T, a *Access) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		h := Judge(a.Name(), a.Status(t.Context()), a.Cluster())
		assert.Empty(c, h.Problems)
		assert.Empty(c, h.Starting)
	}, 2*soon, 200*time.Millisecond)
}

// A server joins, another one is drained and leaves; leaders and replicas move. Files are written and read
// meanwhile.
func TestServersComeAndGo(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.certify()
	w.startAll()
	a := w.operator()
	c, root := w.client(w.access(identity.Client, "laptop")), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 10)

	var joined Changed
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &joined))
	require.Equal(t, "westd", joined.Server)
	issueServer(t, w, "westd")
	w.start("westd")
	awaitHealthy(t, a)

	require.NoError(t, a.Ask(t.Context(), "westb", &Request{Op: MoveLeader, Partition: 1}, &Changed{}))
	require.Eventually(t, func() bool {
		h := Judge(a.Name(), a.Status(t.Context()), a.Cluster())
		return h.Partitions[1].Leader == "westb"
	}, soon, 100*time.Millisecond)
	files.write(t, c, root, 3)

	var drained Changed
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Drain, Server: "westa"}, &drained))
	require.Len(t, drained.Notes, 2, "a replica of the global partition, one of the region's")
	following, stop := context.WithCancel(t.Context())
	defer stop()
	go a.Follow(following, c)
	files.write(t, c, root, 10)
	require.Eventually(t, func() bool {
		a.refresh(t.Context())
		return a.Cluster().Server("westa").State == topology.StorageLeft
	}, 2*soon, 100*time.Millisecond)
	awaitHealthy(t, a)
	require.Empty(t, a.Cluster().ReplicasOn("westa"))
	w.halt("westa")
	files.write(t, c, root, 5)
	files.check(t, c, root)
	awaitHealthy(t, a)

	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Drain, Server: "westb"}, &Changed{}), "let a new server join first")
	for name := range w.running {
		w.halt(name)
	}
	w.start("westb", "westc", "westd")
	awaitHealthy(t, a)
	files.check(t, w.client(a), root)
}

func issueServer(t *testing.T, w *world, name string) {
	ca, err := identity.LoadCA(w.file.Certificates)
	require.NoError(t, err)
	pair, err := ca.Issue(identity.Request{Role: identity.Server, Name: name})
	require.NoError(t, err)
	require.NoError(t, pair.Save(identity.FilesIn(w.file.Certificates, identity.Server, name), false))
}

// The replicas of a dead server are replaced by replicas on other servers, and the server is removed.
func TestDeadServerIsRemoved(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 10)
	var joined Changed
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Join, Region: "west", Address: registrytest.FreeAddress(t)}, &joined))
	w.start(joined.Server)
	awaitHealthy(t, a)
	w.halt("westc")
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Remove, Server: "westa"}, &Changed{}), "is live")
	require.ErrorContains(t, a.Ask(t.Context(), "", &Request{Op: Remove, Server: "westc"}, &Changed{}), "replace them first")
	for p := range uint16(2) {
		require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Replace, Partition: p, Server: "westc"}, &Changed{}))
	}
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Remove, Server: "westc"}, &Changed{}))
	awaitHealthy(t, a)
	a.refresh(t.Context())
	c.Update(a.Cluster())
	w.halt("westa") // the new replica has to be part of the majority
	files.write(t, c, root, 5)
	files.check(t, c, root)
}

// Only admins change the cluster; every caller gets the status and the description.
func TestOnlyAdminsChangeTheCluster(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 1)
	w.certify()
	w.startAll()
	mount := w.access(identity.Client, "laptop")
	for _, q := range []Request{{Op: Join, Region: "west", Address: "h:1"}, {Op: Drain, Server: "westa"}, {Op: Remove, Server: "westa"}, {Op: MoveLeader}, {Op: Replace, Server: "westa"}} {
		require.ErrorContains(t, mount.Ask(t.Context(), "", &q, &Changed{}), "needs the certificate of an admin", q.Op)
	}
	require.Len(t, mount.Status(t.Context()), 1)
	require.NoError(t, w.operator().Ask(t.Context(), "westa", &Request{Op: MoveLeader}, &Changed{}))
}
