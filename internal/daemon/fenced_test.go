package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// Another cluster has taken the place of a lost one: it has the same names, addresses and processes. A server
// of the lost one does not start beside it, also if etcd is away.
func TestOldClusterIsFencedWithoutEtcd(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	old := filepath.Join(t.TempDir(), "old")
	for name := range w.file.Addresses {
		w.halt(name)
	}
	require.NoError(t, os.CopyFS(old, os.DirFS(w.dir("westc"))))
	for name := range w.file.Addresses {
		require.NoError(t, os.RemoveAll(w.dir(name)))
	}
	require.Eventually(t, func() bool { return Forget(t.Context(), &w.file, quiet()) == nil }, 20*time.Second, 100*time.Millisecond)
	w.startAll()
	w.halt("westc")
	w.etcd.Stop(t)
	require.NoError(t, os.RemoveAll(w.dir("westc")))
	require.NoError(t, os.CopyFS(w.dir("westc"), os.DirFS(old)))
	_, err := w.tryStart(t.Context(), "westc", w.file)
	require.ErrorIs(t, err, errOldCluster)
}

// If servers of two clusters with the same name exchange messages, only the server of the older cluster
// learns that it must end.
func TestTheOlderClusterEnds(t *testing.T) {
	spec := topology.DefaultSpec()
	plan, err := spec.Plan()
	require.NoError(t, err)
	in := func(born time.Time) *rollbacks {
		own := *plan
		own.Created = born
		return &rollbacks{name: plan.Servers[0].Name, instance: "i", plan: func() *topology.Cluster { return &own }}
	}
	now := time.Now()
	for _, c := range []struct {
		asker, asked time.Time
		ends         bool
	}{{now, now.Add(1), true}, {now.Add(1), now, false}, {now, now, false}} {
		asked := in(c.asked)
		asked.name = plan.Servers[1].Name
		_, err := in(c.asker).askServers(t.Context(), answering{asked}, &Numbers{Server: plan.Servers[0].Name, Instance: "i", Incarnation: 3}, plan.Servers[1:2])
		require.Equal(t, c.ends, err != nil, "%+v: %v", c, err)
		if c.ends {
			require.ErrorIs(t, err, errOldCluster)
		}
		_, known := asked.peers.numbers[plan.Servers[0].Name]
		require.Equal(t, c.asker.Equal(c.asked), known, "the numbers of another cluster are not kept")
	}
}

// answering is a caller that reaches the numbers of one server.
type answering struct{ *rollbacks }

// CallAddress implements caller.
func (a answering) CallAddress(ctx context.Context, _ string, request []byte) ([]byte, error) {
	var q Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, err
	}
	known, err := a.exchange(ctx, q.Numbers)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&known)
}
