package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestOnlyReplicasReachTheMemory: a peer acts for the replica that the cluster places on it, and for no other
// process.
func TestOnlyReplicasReachTheMemory(t *testing.T) {
	spec := topology.DefaultSpec()
	spec.Regions, spec.Multicast.Local = []topology.Region{"west"}, topology.LocalTRAM
	plan, err := spec.Plan()
	require.NoError(t, err)
	s := &Server{}
	s.plan.Store(plan)
	first, second := plan.Partitions[1].Replicas[0], plan.Partitions[1].Replicas[1]
	of := func(role identity.Role, name string) *identity.Identity {
		return &identity.Identity{Role: role, Name: name}
	}
	require.NoError(t, memory{s, &hosted{partition: 1}}.admit(first.Process, of(identity.Server, first.Server)))
	require.NoError(t, memory{s, &hosted{partition: 1}}.admit(first.Process, nil), "a cluster without certificates is on loopback only")
	for name, c := range map[string]struct {
		partition uint16
		from      multicast.ProcessID
		peer      *identity.Identity
	}{
		"another server":    {1, first.Process, of(identity.Server, second.Server)},
		"a client":          {1, first.Process, of(identity.Client, first.Server)},
		"an admin":          {1, first.Process, of(identity.Admin, first.Server)},
		"another partition": {0, first.Process, of(identity.Server, first.Server)},
		"no process":        {1, 9999, nil},
	} {
		require.ErrorIs(t, memory{s, &hosted{partition: c.partition}}.admit(c.from, c.peer), errStranger, name)
	}

	spec.Replace(plan, first.Process, "")
	plan, err = spec.Plan()
	require.NoError(t, err)
	s.plan.Store(plan)
	require.ErrorIs(t, memory{s, &hosted{partition: 1}}.admit(first.Process, of(identity.Server, first.Server)), errStranger, "it was replaced")
}

// TestMemoryNeedsALog: TRAM does not run with a log in memory.
func TestMemoryNeedsALog(t *testing.T) {
	s := &Server{cfg: Config{Durability: wal.Memory}}
	_, err := memory{s, &hosted{}}.newCore(nil, multicast.Position{}, 1)
	require.ErrorContains(t, err, "durability")
}
