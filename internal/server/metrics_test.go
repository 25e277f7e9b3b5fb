package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
)

// The metrics name replicas without a vote, and those that do not run since they are damaged.
func TestMetricsOfFailedReplicas(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	s := hosting(ctx, &running)
	s.cfg.Name = "westa"
	plan, err := (&topology.Spec{Regions: []topology.Region{"west"}, Datacenters: 3, Replicas: 3, Copies: 2}).Plan()
	require.NoError(t, err)
	s.plan.Store(plan)
	for _, r := range s.replicas {
		r.hosted.Load().counts = &counts{}
	}
	s.replicas[1].hosted.Load().amnesiac.Store(true)
	s.damaged = map[uint16]Damage{2: {Partition: 2}}
	var set metrics.Set
	set.Add(s.Metrics)
	w := httptest.NewRecorder()
	set.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`globalfs_replica_amnesiac{partition="0",region="west",server="westa"} 0`,
		`globalfs_replica_amnesiac{partition="1",region="west",server="westa"} 1`,
		`globalfs_replica_damaged{partition="1",region="west",server="westa"} 0`,
		`globalfs_replica_damaged{partition="2",region="west",server="westa"} 1`,
	} {
		require.Contains(t, w.Body.String(), line+"\n")
	}
}
