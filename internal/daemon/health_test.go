package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// threeServers returns a cluster of one partition with a replica on each of three servers, and the answers of
// healthy servers.
func threeServers() (*topology.Cluster, []Answer) {
	plan := &topology.Cluster{Partitions: []topology.Partition{{ID: 0, Path: "/"}}}
	var answers []Answer
	for i, name := range []string{"a", "b", "c"} {
		process := multicast.ProcessID(i + 1)
		plan.Partitions[0].Replicas = append(plan.Partitions[0].Replicas, topology.Replica{Process: process, Server: name})
		answers = append(answers, Answer{
			Server: topology.Server{Name: name, State: topology.StorageMember}, Clock: Clock{Known: true, Within: time.Millisecond},
			Status: ServerStatus{Name: name, Started: time.Now().Add(-time.Hour), Replicas: []ReplicaStatus{
				{Process: uint32(process), Seated: true, Leads: i == 0, Applied: 100, Before: 100, StillMS: 20_000},
			}},
		})
	}
	return plan, answers
}

func TestJudge(t *testing.T) {
	looking := &StorageServer{Status: &region.Status{}}
	incomplete := func(reason string) *StorageServer {
		s := &StorageServer{Status: &region.Status{}}
		s.Status.Repair.Last.FinishedAt, s.Status.Repair.Last.Error = time.Now(), reason
		return s
	}
	for name, c := range map[string]struct {
		change   func(answers []Answer)
		problems []string // level, code and the beginning of the text of each
		starting int
	}{
		"all is well": {change: func([]Answer) {}},
		"a quiet replica is a few commands behind others that have just moved": {change: func(a []Answer) {
			a[0].Status.Replicas[0].Applied, a[0].Status.Replicas[0].StillMS = 105, 0
		}},
		"a replica has not moved, and is behind by one command": {
			change: func(a []Answer) { a[2].Status.Replicas[0].Applied = 99 },
			problems: []string{
				"WARN REPLICA_BEHIND: replicas on c are behind and do not move: look at the log of the server: partition 0 (/) by 1 commands for 20s",
			},
		},
		"a replica is catching up": {
			change: func(a []Answer) {
				a[2].Status.Replicas[0].Applied, a[2].Status.Replicas[0].StillMS = 50, 10
			},
			problems: []string{"WARN REPLICA_BEHIND: replicas on c are behind and catch up: wait before you stop another server: partition 0 (/) by 50 commands"},
		},
		"servers that have just started know of no progress": {change: func(a []Answer) {
			for i := range a {
				a[i].Status.Replicas[0].Before, a[i].Status.Replicas[0].StillMS = 0, 0
			}
			a[1].Status.Replicas[0].Applied = 1
		}},
		"a replica has lost power": {
			change: func(a []Answer) {
				a[1].Status.Stopped = []StoppedReplica{{Process: 2, State: "amnesiac"}}
			},
			problems: []string{"WARN REPLICA_AMNESIAC: server b has lost power and perhaps records; its replicas have no vote"},
		},
		"a replica has stopped": {
			change: func(a []Answer) {
				a[1].Status.Replicas = nil
				a[1].Status.Stopped = []StoppedReplica{{Process: 2, State: "stopped", Reason: "invariant broken"}}
			},
			problems: []string{
				"ERR REPLICA_STOPPED: the replica of partition 0 (/) on b has stopped, please report this: invariant broken",
				"WARN PARTITION_WEAK: partition 0 (/) has no replica on b",
			},
		},
		"a replica fails": {
			change: func(a []Answer) {
				a[1].Status.Replicas = nil
				a[1].Status.Stopped = []StoppedReplica{{Process: 2, State: "failing", Reason: "no space"}}
			},
			problems: []string{"WARN REPLICA_FAILING: the replica of partition 0 (/) on b fails", "WARN PARTITION_WEAK"},
		},
		"causes come first": {
			change: func(a []Answer) {
				a[0].Error, a[1].Error = "refused", "refused"
				a[2].Status.Unanswered = []Unanswered{{ForMS: 35_000, Error: "timeout"}}
			},
			problems: []string{
				"WARN SERVER_DOWN: server a does not answer (it has replicas of /): start it", "WARN SERVER_DOWN: server b", "ERR PARTITION_BLOCKED: partition 0 (/) takes no updates, for 35s: no replica on a, b",
			},
		},
		"a partition does not answer": {
			change: func(a []Answer) {
				a[2].Status.Unanswered = []Unanswered{{ForMS: 35_000, Error: "timeout"}}
				a[0].Status.Unanswered = []Unanswered{{ForMS: 25_000, Error: "other"}}
				a[1].Status.Unanswered = []Unanswered{{ForMS: 900, Error: "young"}}
			},
			problems: []string{"ERR PARTITION_NOT_ANSWERING: partition 0 (/) has not answered a, c for 35s: check the network"},
		},
		"a clock is wrong": {
			change:   func(a []Answer) { a[1].Clock.Ahead = -1500 * time.Millisecond },
			problems: []string{"WARN CLOCKS_DIFFER: the clock of b is 1.5s behind most servers"},
		},
		"a slow answer says little of a clock": {change: func(a []Answer) {
			a[1].Clock = Clock{Known: true, Ahead: 1500 * time.Millisecond, Within: 600 * time.Millisecond}
		}},
		"a server of an older version tells no time": {change: func(a []Answer) { a[1].Clock = readClock(time.Now(), time.Now(), time.Time{}) }},
		"one of two clocks is wrong": {
			change:   func(a []Answer) { a[0].Clock.Ahead, a[2].Clock.Known = 2*time.Second, false },
			problems: []string{"WARN CLOCKS_DIFFER: the clock of a is 2s ahead of b"},
		},
		"a server has just started, and its replica is on its way": {
			change: func(a []Answer) {
				a[2].Status.Started = time.Now()
				a[2].Status.Replicas[0].Seated = false
			},
			problems: []string{"INFO REPLICA_BEHIND: replicas on c do not take part yet"},
		},
		"a server has just started without its replica": {
			change: func(a []Answer) {
				a[2].Status.Started = time.Now()
				a[2].Status.Replicas = nil
			},
			problems: []string{"INFO PARTITION_WEAK: partition 0 (/) has no replica on c"},
		},
		"a server runs for long without its replica": {
			change:   func(a []Answer) { a[2].Status.Replicas = nil },
			problems: []string{"WARN PARTITION_WEAK: partition 0 (/) has no replica on c"},
		},
		"servers have just started without their replicas": {
			change: func(a []Answer) {
				for i := range a {
					a[i].Status.Started, a[i].Status.Replicas = time.Now(), nil
				}
			},
			problems: []string{"WARN PARTITION_BLOCKED: partition 0 (/) takes no updates: no replica on a, b, c"},
		},
		"a server is down: the rest follows from it": {
			change: func(a []Answer) {
				a[1].Error = "process unreachable"
				a[0].Status.Storage = incomplete("storage server 12: too few storage servers answer")
				a[2].Status.Storage = incomplete("storage server 12: too few\nstorage servers answer")
			},
			problems: []string{"WARN SERVER_DOWN: server b", "WARN PARTITION_WEAK", "WARN REPAIR_PENDING: the blocks of a, c could not all be checked"},
		},
		"a round of repair fails next to a server that has just started": {
			change: func(a []Answer) {
				a[1].Status.Started = time.Now()
				a[0].Status.Storage = incomplete("timeout")
			},
			problems: []string{"INFO REPAIR_PENDING: the blocks of a could not all be checked"},
		},
		"the registry is unavailable": {
			change: func(a []Answer) {
				for i := range a {
					a[i].Status.Registry = "etcd: timeout"
				}
			},
			problems: []string{"WARN REGISTRY_AWAY: the registry (etcd) is no help to a, b, c: files are served"},
		},
		"a server has just started": {
			change:   func(a []Answer) { a[0].Status.Storage, a[0].Status.Started = looking, time.Now() },
			starting: 1,
		},
		"a server does not come to look at its blocks": {
			change:   func(a []Answer) { a[0].Status.Storage = looking },
			problems: []string{"WARN REPAIR_PENDING: server a has not looked through its blocks"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, answers := threeServers()
			c.change(answers)
			h := Judge("test", answers, plan)
			require.Len(t, h.Problems, len(c.problems), "%q", h.Problems)
			for i, want := range c.problems {
				require.Contains(t, string(h.Problems[i].Level)+" "+h.Problems[i].String(), want)
			}
			require.Len(t, h.Starting, c.starting)
			require.Equal(t, len(c.problems)+c.starting == 0, h.Settled())
		})
	}
}

// A problem that follows from another one names the servers that cause it. Errors have names of servers in
// the place of numbers.
func TestEffects(t *testing.T) {
	plan, answers := threeServers()
	for i := range answers {
		plan.Servers = append(plan.Servers, topology.Server{Name: answers[i].Server.Name, Storage: multicast.ProcessID(11 + i)})
	}
	answers[1].Error = "process unreachable"
	answers[0].Status.Storage = &StorageServer{Status: &region.Status{}}
	answers[0].Status.Storage.Status.Repair.Last = region.RoundStatus{FinishedAt: time.Now(), Error: "storage server 12: too few storage servers answer: process 12: refused"}
	h := Judge("test", answers, plan)
	require.False(t, h.Healthy)
	require.False(t, h.Problems[0].Effect())
	require.Equal(t, []string{"process unreachable"}, h.Problems[0].Details)
	for _, p := range h.Problems[1:] {
		require.True(t, p.Effect(), p)
		require.Equal(t, []string{"b"}, p.CausedBy)
	}
	require.Equal(t, []string{"a: server b: too few storage servers answer: server b: refused"}, h.Problems[2].Details)

	answers[2].Error = "process unreachable"
	h = Judge("test", answers, plan)
	require.Equal(t, PartitionBlocked, h.Problems[2].Code)
	require.Equal(t, []string{"b", "c"}, h.Problems[2].CausedBy)
	require.False(t, h.Problems[2].Effect(), "files are not served: this is always shown")
}

// Problems of the same kind are reported in one line of bounded length.
func TestManyProblemsInOneLine(t *testing.T) {
	plan, answers := threeServers()
	for i := range uint16(9) {
		process := multicast.ProcessID(100 + i)
		plan.Partitions = append(plan.Partitions, topology.Partition{ID: i + 1, Path: "/p", Replicas: []topology.Replica{{Process: process, Server: "c"}}})
		answers[2].Status.Replicas = append(answers[2].Status.Replicas, ReplicaStatus{Process: uint32(process)})
	}
	h := Judge("test", answers, plan)
	require.Len(t, h.Problems, 1)
	require.Equal(t, "REPLICA_BEHIND: replicas on c do not take part yet: wait before you stop another server: "+
		"partition 1 (/p), partition 2 (/p), partition 3 (/p), partition 4 (/p), partition 5 (/p), partition 6 (/p) and 3 more", h.Problems[0].String())
	require.Contains(t, h.Problems[0].Details[0], "partition 9 (/p)")
}

// Every code has a rank, and a line with its cause and remedy.
func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	for _, code := range causes {
		require.True(t, strings.Contains(string(page), "| `"+code+"` |"), "docs/monitoring.md has no line for %s", code)
	}
	j := judge{health: &Health{}}
	require.Panics(t, func() { j.problem("NO_SUCH_CODE", "text") })
}

func TestMovement(t *testing.T) {
	var m movement
	start := time.Now()
	applied := uint64(0)
	for s := range 31 {
		if s <= 20 {
			applied = uint64(s)
		}
		m.note(start.Add(time.Duration(s)*time.Second), map[multicast.ProcessID]uint64{7: applied})
		before, still := m.of(7, start.Add(time.Duration(s)*time.Second))
		require.EqualValues(t, max(0, s-10), before)
		require.Equal(t, time.Duration(max(0, s-20))*time.Second, still)
	}
	require.LessOrEqual(t, len(m.replicas[7].samples), 12)
	m.note(start, nil)
	before, still := m.of(7, start)
	require.Zero(t, before)
	require.Zero(t, still)
}

// A partition that does not answer is reported with the time since the first unanswered canary, until it
// answers again.
func TestCanaries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var asked atomic.Int64
		c := newCanaries(func(ctx context.Context, partition uint16) error {
			asked.Add(1)
			if !silent.Load() {
				return nil
			}
			<-ctx.Done()
			return errors.New("timeout")
		}, func() int { return 3 })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx, 5) }()
		time.Sleep(10 * time.Minute) // virtual
		require.Empty(t, c.unanswered())
		require.GreaterOrEqual(t, asked.Load(), int64(58))
		require.LessOrEqual(t, asked.Load(), int64(82))
		silent.Store(true)
		time.Sleep(time.Minute) // virtual
		said := c.unanswered()
		require.Len(t, said, 1)
		require.EqualValues(t, 5, said[0].Partition)
		require.Equal(t, "timeout", said[0].Error)
		require.InDelta(t, 55_000, said[0].ForMS, 5000)
		silent.Store(false)
		time.Sleep(15 * time.Second) // virtual
		require.Empty(t, c.unanswered())
		stop()
		<-done
	})
}

func TestCanariesAreRareInLargeClusters(t *testing.T) {
	require.Equal(t, 10*time.Second, canaryEvery(1))
	require.Equal(t, 10*time.Second, canaryEvery(10))
	require.Equal(t, 100*time.Second, canaryEvery(100))
}

// The end of a round of repair is known from a server of an earlier version too, and has one name in JSON.
func TestStatusOfEarlierVersion(t *testing.T) {
	for _, text := range []string{`{"finishedAt": "2026-01-02T03:04:05Z"}`, `{"finished_at": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:05Z"}`} {
		status := new(region.Status)
		require.NoError(t, json.Unmarshal([]byte(text), &status.Repair.Last))
		status.Adopt()
		out, err := json.Marshal(status.Repair.Last)
		require.NoError(t, err)
		require.Contains(t, string(out), `"finished_at":"2026-01-02T03:04:05Z"`)
		require.NotContains(t, string(out), "finishedAt")
	}
}
