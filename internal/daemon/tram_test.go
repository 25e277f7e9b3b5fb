package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// TestTramOrdersPartitions: servers with certificates order the partitions of their region in one-sided
// memory, over TCP or shared memory, and go on without the first leader.
func TestTramOrdersPartitions(t *testing.T) {
	for _, fabric := range []topology.MemoryFabric{topology.MemorySoft, topology.MemoryShm} {
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
			w.halt("westa")
			work("without")
			w.start("westa")
			work("with")
		})
	}
}

// TestTramReplaces: a new process takes over the seat of a replica, on an empty disk of the same server,
// and is part of a majority afterwards.
func TestTramReplaces(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.file.Multicast.Local = topology.LocalTRAM
	w.certify()
	w.startAll()
	a := w.operator()
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
