package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// TestTramOrdersPartitions: servers with certificates order the partitions of their region in one-sided
// memory, over TCP or shared memory, and go on without the first leader. test/rdma runs the tests of this
// file over RDMA.
func TestTramOrdersPartitions(t *testing.T) {
	kinds := map[topology.MemoryFabric]string{
		topology.MemorySoft: transport.FabricTCP, topology.MemoryShm: transport.FabricShm, topology.MemoryAuto: transport.FabricShm,
	}
	if len(rdmaDevices()) > 0 {
		kinds = map[topology.MemoryFabric]string{topology.MemoryVerbs: server.FabricVerbs}
	}
	for fabric, kind := range kinds {
		t.Run(string(fabric), func(t *testing.T) {
			w := newWorld(t, []topology.Region{"west"}, 3)
			w.file.Multicast = topology.Multicast{Local: topology.LocalTRAM, Fabric: fabric}
			w.certify()
			w.startAll()
			f := w.client(w.access(identity.Client, "laptop"))
			region, err := f.Lookup(t.Context(), posix.Root, "west")
			require.NoError(t, err)
			require.EqualValues(t, 1, region.Ino.Partition())
			work := func(round string) {
				for n := range 20 {
					began := time.Now()
					_, err := f.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: region.Ino, Name: fmt.Sprint(round, n)}, 0o755)
					require.NoError(t, err)
					if d := time.Since(began); d > time.Second {
						t.Logf("%s%d: %v", round, n, d)
					}
				}
			}
			work("begin")
			w.moveLeader("westb")
			work("moved")
			w.moveLeader("westa")
			w.halt("westa")
			work("without")
			w.start("westa")
			work("with")
			w.checkMemories(kind)
		})
	}
}

// rdmaDevices returns the devices that test/rdma names; empty: there are none.
func rdmaDevices() []string { return strings.Fields(os.Getenv("GLOBALFS_TEST_RDMA")) }

// rdmaDevice returns the device of a server; empty: it needs none.
func (w *world) rdmaDevice(name string) string {
	if w.file.Multicast.Fabric != topology.MemoryVerbs {
		return ""
	}
	devices := rdmaDevices()
	return devices[int(name[len(name)-1]-'a')%len(devices)]
}

// TestShmNeedsSharing: a cluster file that demands shared memory and forbids it, or has no certificates, is
// refused.
func TestShmNeedsSharing(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.file.Multicast = topology.Multicast{Local: topology.LocalTRAM, Fabric: topology.MemoryShm}
	require.ErrorContains(t, w.file.Validate(), "multicast: fabric: shm: it needs certificates")
	w.certify()
	require.NoError(t, w.file.Validate())
	w.file.Fabric = topology.FabricOff
	require.ErrorContains(t, w.file.Validate(), "multicast: fabric: shm: it needs fabric: auto")
}

// TestVerbsNeedsCertificates: the keys of memory go only to servers that have proven their identity.
func TestVerbsNeedsCertificates(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.file.Multicast = topology.Multicast{Local: topology.LocalTRAM, Fabric: topology.MemoryVerbs}
	require.ErrorContains(t, w.file.Validate(), "multicast: fabric: verbs: it needs certificates")
	w.certify()
	require.NoError(t, w.file.Validate())
}

// moveLeader asks a server to lead partition 1, and waits until it does.
func (w *world) moveLeader(to string) {
	w.t.Helper()
	a := w.operator()
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		assert.NoError(c, a.Ask(w.t.Context(), to, &Request{Op: MoveLeader, Partition: 1}, &Changed{}))
		assert.Equal(c, to, Judge("test", a.Status(w.t.Context()), a.Cluster()).Partitions[1].Leader)
	}, time.Minute, 100*time.Millisecond)
}

// checkMemories waits until all replicas show the connections to the memory of the others, and checks that
// the loss of the first leader has revoked its rights.
func (w *world) checkMemories(kind string) {
	w.t.Helper()
	a := w.operator()
	var of PartitionHealth
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		of = Judge("test", a.Status(w.t.Context()), a.Cluster()).Partitions[1]
		assert.NotEmpty(c, of.Leader)
		for _, r := range of.Replicas {
			if assert.NotNil(c, r.Memory, r.Server) {
				assert.Len(c, r.Memory.Fabrics, 2, r.Server)
			}
		}
	}, time.Minute, 100*time.Millisecond)
	require.Equal(w.t, "tram", of.Order)
	revoked := 0
	for _, r := range of.Replicas {
		require.Equal(w.t, onesided.DefaultSlots, r.Memory.Slots)
		require.Positive(w.t, r.Memory.Credits)
		for peer, through := range r.Memory.Fabrics {
			require.NotEqual(w.t, r.Server, peer)
			require.Equal(w.t, kind, through)
		}
		revoked += r.Memory.Revocations
	}
	require.Positive(w.t, revoked)
	scraped := httptest.NewRecorder()
	w.running["westb"].Metrics().Handler().ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`globalfs_replica_order{order="tram",partition="1",region="west",server="westb"} 1`,
		`globalfs_replica_memory_slots{partition="1",region="west",server="westb"} 64`,
		`globalfs_replica_memory_connections{fabric="` + kind + `",partition="1",region="west",server="westb"} 2`,
	} {
		require.Contains(w.t, scraped.Body.String(), line+"\n")
	}
}

// newTramWorld starts three servers of a region with partitions that TRAM orders.
func newTramWorld(t *testing.T) (w *world, a *Access) {
	w = newWorld(t, []topology.Region{"west"}, 3)
	w.file.Multicast.Local = topology.LocalTRAM
	if len(rdmaDevices()) > 0 {
		w.file.Multicast.Fabric = topology.MemoryVerbs
	}
	w.certify()
	w.startAll()
	return w, w.operator()
}

// TestTramReplaces: a new process takes over the seat of a replica, on an empty disk of the same server,
// and is part of a majority afterwards.
func TestTramReplaces(t *testing.T) {
	w, a := newTramWorld(t)
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 5)
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: Replace, Partition: 1, Server: "westb", To: "westb"}, &Changed{}))
	files.write(t, c, root, 5)
	awaitHealthy(t, a)
	w.halt("westa")
	a.refresh(t.Context())
	c.Update(a.Cluster())
	files.write(t, c, root, 5)
	files.check(t, c, root)
}

// TestTramAddsPartition: a partition that is added to a region is ordered by TRAM, too, and gets some of the
// new directories.
func TestTramAddsPartition(t *testing.T) {
	w, a := newTramWorld(t)
	require.NoError(t, a.Ask(t.Context(), "", &Request{Op: AddPartition, Region: "west"}, &Changed{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		a.refresh(t.Context())
		all := Judge("test", a.Status(t.Context()), a.Cluster()).Partitions
		if assert.Len(c, all, 3) {
			assert.Equal(c, "tram", all[2].Order)
			assert.Empty(c, all[2].State)
			assert.Equal(c, 2, all[1].Spread)
		}
	}, time.Minute, 100*time.Millisecond)
	f, root := w.client(a), a.Cluster().Partitions[1].Root()
	homes := map[uint16]bool{}
	for n := range 20 {
		made, err := f.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: root, Name: fmt.Sprint("d", n)}, 0o755)
		require.NoError(t, err)
		homes[made.Ino.Partition()] = true
	}
	require.Equal(t, map[uint16]bool{1: true, 2: true}, homes)
}
