package server

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
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

// TestVerbsIsNeverReplaced: without the means for RDMA, memory for RDMA is refused, and no other memory takes
// its place. The error names the key of the cluster file.
func TestVerbsIsNeverReplaced(t *testing.T) {
	verbs := topology.Multicast{Local: topology.LocalTRAM, Fabric: topology.MemoryVerbs}
	s := memory{&Server{cfg: Config{Device: "none0"}}, &hosted{process: 1}}
	_, err := s.provide(&oneSided{}, nil, topology.MemoryVerbs)
	require.ErrorContains(t, err, "multicast: fabric: verbs: ")
	require.Equal(t, err, CheckMemory(verbs, "none0"))

	verbs.Local = topology.LocalPrimCast
	require.NoError(t, CheckMemory(verbs, ""), "PrimCast uses no one-sided memory")
	require.ErrorContains(t, CheckMemory(topology.Multicast{Local: topology.LocalTRAM}, "none0"), "leave it out")
}

// TestDeviceErrorIsNoDamage: an error of an RDMA device does not count as damage of the files of a replica.
func TestDeviceErrorIsNoDamage(t *testing.T) {
	err := fmt.Errorf("verbs: open device: %w", syscall.EIO)
	require.True(t, isUnreadable(err))
	require.False(t, isUnreadable(deviceError(err)))
	require.ErrorContains(t, deviceError(err), err.Error())
	require.NoError(t, deviceError(nil))
}

// TestReachedLogsOnce: the failures to reach a peer are logged once until a success.
func TestReachedLogsOnce(t *testing.T) {
	var out strings.Builder
	reached := memory{&Server{cfg: Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}}, &hosted{}}.reached()
	for _, err := range []error{nil, io.EOF, io.EOF, nil, io.EOF} {
		reached(2, err)
	}
	reached(3, io.EOF)
	require.Equal(t, 2, strings.Count(out.String(), "process=2"))
	require.Equal(t, 1, strings.Count(out.String(), "process=3"))
}

// TestMemoryNeedsALog: TRAM does not run with a log in memory.
func TestMemoryNeedsALog(t *testing.T) {
	s := &Server{cfg: Config{Durability: wal.Memory}}
	_, err := memory{s, &hosted{}}.newCore(nil, multicast.Position{}, 1)
	require.ErrorContains(t, err, "durability")
}
