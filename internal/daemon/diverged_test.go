package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func at(entry, count int, sum string) DigestStatus {
	return DigestStatus{Entry: fmt.Sprintf("1.%d", entry), Count: uint64(count), Sum: sum}
}

// permutations returns all permutations of n elements.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, p := range permutations(n - 1) {
		for i := range n {
			all = append(all, append(append(append([]int(nil), p[:i]...), n-1), p[i:]...))
		}
	}
	return all
}

// TestReportsInAnyOrder: the set of odd replicas does not depend on the order of reports, nor on replicas
// that have not reached a place, or passed it long ago.
func TestReportsInAnyOrder(t *testing.T) {
	for name, c := range map[string]struct {
		reports [3][]DigestStatus // by replica
		odd     []string
		agreed  bool
		count   int // of the newest place at which they differ
		same    int // of the newest place at which all are equal
	}{
		"equal":                     {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(1, 10, "x")}, {at(1, 10, "x")}}, same: 10},
		"nobody tells":              {},
		"one tells":                 {reports: [3][]DigestStatus{{at(1, 10, "x")}}},
		"other places":              {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(2, 20, "y")}, {at(3, 30, "z")}}},
		"one is odd":                {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(1, 10, "y")}, {at(1, 10, "x")}}, odd: []string{"b"}, agreed: true, count: 10},
		"one is odd in its count":   {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(1, 10, "x")}, {at(1, 11, "x")}}, odd: []string{"c"}, agreed: true, count: 11},
		"two differ, one is silent": {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(1, 10, "y")}}, odd: []string{"a", "b"}, count: 10},
		"all differ":                {reports: [3][]DigestStatus{{at(1, 10, "x")}, {at(1, 10, "y")}, {at(1, 10, "z")}}, odd: []string{"a", "b", "c"}, count: 10},
		"one is odd from a place on": {
			reports: [3][]DigestStatus{{at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "x"), at(2, 20, "y")}},
			odd:     []string{"c"}, agreed: true, count: 20, same: 10,
		},
		"the newest place counts": {
			reports: [3][]DigestStatus{{at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "z"), at(2, 20, "y")}},
			odd:     []string{"c"}, agreed: true, count: 20,
		},
		"an odd one is back in step": {
			reports: [3][]DigestStatus{{at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "x"), at(2, 20, "x")}, {at(1, 10, "y"), at(2, 20, "x")}},
			odd:     []string{"c"}, agreed: true, count: 10, same: 20,
		},
	} {
		for _, order := range permutations(3) {
			var p topology.Partition
			for _, i := range order {
				p.Replicas = append(p.Replicas, topology.Replica{Process: multicast.ProcessID(i), Server: string(rune('a' + i))})
			}
			d, same := compareDigests(&p, func(r topology.Replica) []DigestStatus { return c.reports[r.Process] })
			require.EqualValues(t, c.same, same, name)
			if c.odd == nil {
				require.Nil(t, d, name)
				continue
			}
			var odd []string
			for _, r := range d.odd {
				odd = append(odd, r.Server)
			}
			require.ElementsMatch(t, c.odd, odd, name)
			require.Equal(t, c.agreed, d.agreed, name)
			require.EqualValues(t, c.count, d.count, name)
		}
	}
}

// The status names a difference with its place and all digests, until the difference has ended.
func TestJudgeDiverged(t *testing.T) {
	plan, answers := threeServers()
	for i, sum := range []string{"x", "x", "y"} {
		answers[i].Status.Digests = []ReplicaDigests{{Process: uint32(i + 1), Digests: []DigestStatus{at(7, 70, sum)}}}
	}
	require.Equal(t, []Problem{{
		Level: LevelErr, Code: ReplicaDiverged, Text: "the replica of partition 0 (/) on c has another state than the majority",
		Details: []string{"after entry 1.7: a has x after 70 entries, b has x after 70 entries, c has y after 70 entries"},
	}}, Judge("test", answers, plan).Problems)
	answers[0].Status.Digests = nil
	require.Contains(t, Judge("test", answers, plan).Problems[0].Text, "on b, c have different states, and no majority of the replicas agrees: no replica is replaced")
	answers[2].Status.Digests[0].Process = 9 // it was replaced
	require.Empty(t, Judge("test", answers, plan).Problems)
}

// A partition without a replica on this server is not reported.
func TestForgetPartitions(t *testing.T) {
	s := &Server{server: &server.Server{}}
	s.cfg.Name = "d"
	plan, _ := threeServers()
	s.known.current.Store(&description{cluster: plan})
	c := newComparison(s)
	c.divergent[0], c.lastLogged[0] = true, "said"
	c.once(t.Context(), nil) // d has no replica
	require.Empty(t, c.divergent)
	require.Empty(t, c.lastLogged)
}

// TestDivergedReplica: the test changes the store of a replica while its server is down. The digests show the
// difference, the other replicas are the majority, and another process takes the place of the replica; the
// evidence is kept.
func TestDivergedReplica(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 3)
	w.startAll()
	a := w.operator()
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 10)
	was := replicaOn(t, a, "westc")
	w.halt("westc")
	changeStore(t, filepath.Join(w.dir("westc"), "partition-1", "state"))
	w.start("westc")

	following, stop := context.WithCancel(t.Context())
	defer stop()
	go a.Follow(following, c)
	require.Eventually(t, func() bool {
		a.refresh(t.Context())
		return replicaOn(t, a, "westc").Process != was.Process
	}, 4*soon, 200*time.Millisecond, "the odd replica is replaced")
	awaitHealthy(t, a)
	files.write(t, c, root, 5)
	files.check(t, c, root)
	evidence, err := os.ReadFile(filepath.Join(w.dir("westc"), fmt.Sprintf("partition-1.damaged-%d", was.Process), server.DamageFile))
	require.NoError(t, err)
	require.Contains(t, string(evidence), "another state than the majority")
	require.Regexp(t, `westc has [0-9a-f]{32} after \d+ entries`, string(evidence))
	for _, other := range []string{"westa", "westb"} {
		found, err := filepath.Glob(filepath.Join(w.dir(other), "*.damaged-*"))
		require.NoError(t, err)
		require.Empty(t, found, "the majority stays")
	}
}

// replicaOn returns the replica of partition 1 on a server.
func replicaOn(t *testing.T, a *Access, name string) topology.Replica {
	t.Helper()
	for _, r := range a.Cluster().Partitions[1].Replicas {
		if r.Server == name {
			return r
		}
	}
	t.Fatalf("no replica on %s", name)
	return topology.Replica{}
}

// changeStore changes the value of a key of the metadata in a way that no replica does.
func changeStore(t *testing.T, dir string) {
	t.Helper()
	keys, err := kv.Open(dir, kv.Options{})
	require.NoError(t, err)
	var last, value []byte
	for k, v := range keys.Scan(nil, []byte{0x40}) {
		if len(v) > 0 {
			last, value = bytes.Clone(k), bytes.Clone(v)
		}
	}
	require.NotEmpty(t, last)
	value[len(value)-1] ^= 1
	keys.Set(last, value)
	require.NoError(t, keys.Commit(true))
	require.NoError(t, keys.Close())
}
