package route

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// process returns the processes in the order of requests.
func (r *replicas) processes(c class) (all []multicast.ProcessID) {
	for _, i := range r.order(c) {
		all = append(all, r.all[i].Process)
	}
	return all
}

func in(regions ...topology.Region) (all []topology.Replica) {
	for i, region := range regions {
		all = append(all, topology.Replica{Process: multicast.ProcessID(i + 1), Region: region})
	}
	return all
}

// Updates go to the leader if it is as near as the nearest replica. Reads go to any of the nearest replicas.
func TestUpdatesGoToTheLeader(t *testing.T) {
	reads := map[multicast.ProcessID]bool{}
	for range 64 {
		r := newReplicas("eu-west-1", in("eu-west-1", "eu-west-1", "eu-west-1"))
		require.EqualValues(t, 1, r.processes(ordering)[0], "the first one leads at first")
		require.Len(t, r.processes(ordering), 3)
		reads[r.processes(reading)[0]] = true
		r.leads(slices.IndexFunc(r.all, func(x topology.Replica) bool { return x.Process == 3 }))
		require.EqualValues(t, 3, r.processes(ordering)[0])
		r.failed(r.order(ordering)[0], ordering, nil)
		require.EqualValues(t, 3, r.processes(ordering)[2], "it is overloaded")

		r = newReplicas("eu-west-1", in("us-east-1", "eu-west-1", "eu-west-1"))
		require.EqualValues(t, 1, r.processes(ordering)[2], "the leader is far away")
		require.ElementsMatch(t, []multicast.ProcessID{2, 3}, r.processes(ordering)[:2])
	}
	require.Len(t, reads, 3)
	require.Empty(t, newReplicas("eu-west-1", in("eu-west-1", "us-east-1")).candidates(), "there is no choice")
	require.Empty(t, newReplicas("eu-west-1", nil).order(ordering))
}

// leading answers questions for the status: one process leads.
type leading struct {
	leader multicast.ProcessID
	asked  int
}

func (l *leading) Call(_ context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	l.asked++
	q, err := ask.DecodeRequest(request)
	if err != nil || q.Kind != ask.AskStatus {
		return nil, err
	}
	status := ask.Status{Self: to, Leads: to == l.leader}
	reply := ask.Reply{Status: ask.Answered, Result: status.Append(nil)}
	return reply.Append(nil), nil
}

// TestTheLeaderIsFound: each renewal of a session asks who leads.
func TestTheLeaderIsFound(t *testing.T) {
	net := &leading{leader: 1}
	p := &partition{net: &exchanger{caller: net}}
	p.replicas.Store(newReplicas("eu-west-1", in("eu-west-1", "eu-west-1", "eu-west-1", "us-east-1")))
	first := func() multicast.ProcessID { return p.replicas.Load().processes(ordering)[0] }
	p.seekLeader(t.Context())
	require.Equal(t, 1, net.asked, "the probable leader is asked first")
	for _, net.leader = range []multicast.ProcessID{2, 3, 1} {
		p.seekLeader(t.Context())
		require.Equal(t, net.leader, first())
	}
	net.leader = 4
	p.seekLeader(t.Context())
	require.Equal(t, p.replicas.Load().processes(reading), p.replicas.Load().processes(ordering), "far away, or gone")
	net.leader = 2
	p.seekLeader(t.Context())
	require.EqualValues(t, 2, first(), "it is back")
}
