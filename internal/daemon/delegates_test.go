package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// olderPresence announces a server as a version without delegations does.
type olderPresence struct{ registry.Registry }

func (o olderPresence) Claim(ctx context.Context, p registry.Presence) error {
	return o.Registry.Claim(ctx, older(p))
}

func (o olderPresence) Announce(ctx context.Context, p registry.Presence) error {
	return o.Registry.Announce(ctx, older(p))
}

func older(p registry.Presence) registry.Presence {
	p.Info, _, _ = bytes.Cut(p.Info, []byte("\n"))
	return p
}

// startOlder starts a server that does not say that it knows delegations.
func (w *world) startOlder(name string) {
	w.t.Helper()
	r, err := openRegistry(&w.file, quiet())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, r.Close()) })
	cfg := ServerConfig{File: &w.file, Name: name, Tuning: server.Tuning{Healing: blocktest.Impatient()}, Build: "test", Logger: quiet(), Registry: olderPresence{r}}
	s, err := StartServer(w.t.Context(), cfg)
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	p := &process{Server: s, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- s.Run(ctx) }()
	w.running[name] = p
}

// While one server of the partition has not announced that it supports held directories, a mount works
// without them. When all servers have announced it, the mount holds directories, also while a server is down.
// After a downgrade of a server the mount gets no further directories.
func TestDelegationsWithMixedVersions(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startOlder("westc")
	w.start("westa", "westb")
	a := w.operator()
	top := a.Cluster().Partitions[1].Root()
	made := 0
	work := func() (held bool) { // makes a directory with files, by a new client
		c, err := a.Client(ClientConfig{Region: "west", CacheBytes: 1 << 20, Timeout: 20 * time.Second, CacheNames: true, Delegate: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		made++
		dir, err := c.Mkdir(t.Context(), posix.Cred{}, client.Name{Dir: top, Name: fmt.Sprint("d", made)}, 0o755)
		require.NoError(t, err)
		for i := range 5 {
			_, err := c.Mknod(t.Context(), posix.Cred{}, client.Name{Dir: dir.Ino, Name: fmt.Sprint(i)}, posix.TypeRegular|0o644, 0)
			require.NoError(t, err)
		}
		held = c.Holding().Logged > 0
		require.NoError(t, c.Drain(t.Context()))
		return held
	}
	refresh := func() bool { // as Follow does
		a.refresh(t.Context())
		return a.grants(1) == client.NumberedGrants
	}
	require.Equal(t, client.NoGrants, a.grants(1))
	require.False(t, work())

	w.halt("westc")
	w.start("westc")
	require.Eventually(t, refresh, soon, 100*time.Millisecond)
	require.True(t, work())

	w.halt("westb")
	require.Eventually(t, refresh, soon, 100*time.Millisecond, "each server learns it by itself")
	w.startOlder("westb")
	require.Eventually(t, func() bool { return !refresh() }, soon, 100*time.Millisecond)
	require.False(t, work())
}

// presences returns the live servers that a test has set.
type presences struct {
	registry.Presences
	all   []registry.Presence
	err   error
	asked int
}

func (p *presences) Alive(context.Context) ([]registry.Presence, error) {
	p.asked++
	return p.all, p.err
}

func TestDelegatesAreAskedForRarely(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 1}
	plan, err := spec.Plan()
	require.NoError(t, err)
	p := &presences{err: errors.New("away")}
	d := delegates{registry: p}
	both := granting{all: []uint16{0, 1}, numbered: []uint16{0, 1}}
	require.Zero(t, d.partitions(t.Context(), plan))
	p.err = nil
	for _, s := range plan.Servers {
		p.all = append(p.all, registry.Presence{Name: s.Name, Info: []byte("process 1\n" + knowsDelegations + "\n" + numbersGrants)})
	}
	require.Zero(t, d.partitions(t.Context(), plan))
	require.Equal(t, 1, p.asked)
	d.checkedAt = d.checkedAt.Add(-2 * delegatesAgain)
	require.Equal(t, both, d.partitions(t.Context(), plan))
	d.checkedAt = d.checkedAt.Add(-2 * delegatesAgain)
	require.Equal(t, both, d.partitions(t.Context(), plan))
	require.Equal(t, 2, p.asked)
	p.all = p.all[1:] // a server is away
	d.checkedAt = d.checkedAt.Add(-2 * delegatesAnew)
	require.Equal(t, both, d.partitions(t.Context(), plan))
	require.Equal(t, 3, p.asked)
	p.all[0].Info = []byte("process 1\n" + knowsDelegations)
	d.checkedAt = d.checkedAt.Add(-2 * delegatesAnew)
	require.Equal(t, granting{all: []uint16{0, 1}}, d.partitions(t.Context(), plan), "a version without numbers of grants")
	p.all[0].Info = []byte("process 1, knows delegations")
	d.checkedAt = d.checkedAt.Add(-2 * delegatesAnew)
	require.Zero(t, d.partitions(t.Context(), plan))
}
