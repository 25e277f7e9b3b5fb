package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/internal/wal"
)

type askerKey struct{}

func as(t *testing.T, a Asker) context.Context { return context.WithValue(t.Context(), askerKey{}, a) }

// The answer to a call depends on the caller: only servers get pieces of the state and the load, and only
// operators change members.
func TestCallsTakeARole(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"us-west-2"}, Datacenters: 1, Replicas: 1, Copies: 1}
	plan, err := spec.Plan()
	require.NoError(t, err)
	network := transport.NewLocal(nil)
	s, err := Start(Config{
		Cluster: plan, Name: plan.Servers[0].Name, Dir: t.TempDir(), Durability: wal.OS, Endpoint: network.Endpoint,
		Asker:  func(ctx context.Context) Asker { a, _ := ctx.Value(askerKey{}).(Asker); return a },
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ran)
		require.NoError(t, network.Close())
	})
	caller := network.Endpoint(60000)
	process, storage := plan.Partitions[0].Replicas[0].Process, plan.Servers[0].Storage
	state := varint.AppendUint(varint.AppendUint([]byte{transferRequest}, uint64(0)), uint64(0))
	status := (&ask.Request{Kind: ask.AskStatus}).Append(nil)
	mine := &posix.Authority{UIDs: []posix.IDs{{First: 1000, Last: 1000}}}
	admin := region.NewAdmin(caller, time.Second)

	for _, test := range []struct {
		who                Asker
		asks, takes, tells bool
	}{
		{who: Asker{Name: "nobody"}},
		{who: Asker{Name: "c", Authority: mine}, asks: true},
		{who: Asker{Name: "r", Authority: posix.Everybody()}, asks: true},
		{who: Asker{Admin: true}, asks: true, tells: true},
		{who: Asker{Server: true}, asks: true, tells: true, takes: true},
	} {
		ctx := as(t, test.who)
		_, err := caller.Call(ctx, process, status)
		require.Equal(t, test.asks, err == nil, "%+v: %v", test.who, err)
		_, err = caller.Call(ctx, process, state)
		require.Equal(t, test.takes, err == nil, "%+v: %v", test.who, err)
		_, err = caller.Call(ctx, process, []byte{loadRequest})
		require.Equal(t, test.takes, err == nil, "%+v: %v", test.who, err)
		_, err = admin.Status(ctx, storage)
		require.Equal(t, test.asks, err == nil, "%+v: %v", test.who, err)
		members := Members(plan, "us-west-2")
		err = admin.SetMembers(ctx, storage, members)
		require.Equal(t, test.tells, err == nil, "%+v: %v", test.who, err)
	}
}

// An Asker without any rights is not treated as a trusted caller.
func TestAskerIsNobodyWithoutProof(t *testing.T) {
	a := Asker{}
	require.True(t, a.isNobody())
	require.Equal(t, region.RoleNobody, a.role())
	require.NotNil(t, a.client(), "not one of the cluster's own")
	all := trustAll(t.Context())
	require.Nil(t, all.client())
	require.Equal(t, region.RoleServer, all.role())
}
