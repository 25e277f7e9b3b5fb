package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// loop connects cores in memory: all receive in each round the frames of the last one.
type loop struct {
	cores     []*Core
	in        [2][]multicast.Input
	out       multicast.Output
	covered   []multicast.Progress
	delivered int
	seq       uint64
	dest      []multicast.GroupID
}

func newLoop(t testing.TB, groups int) *loop {
	l := &loop{}
	var all []multicast.Group
	for g := range groups {
		first := multicast.ProcessID(3*g + 1)
		all = append(all, multicast.Group{ID: multicast.GroupID(g), Members: []multicast.ProcessID{first, first + 1, first + 2}})
		l.dest = append(l.dest, multicast.GroupID(g))
	}
	for p := range 3 * groups {
		c, err := New(Config{Self: multicast.ProcessID(p + 1), Groups: all})
		require.NoError(t, err)
		l.cores = append(l.cores, c)
	}
	l.in[0], l.in[1] = make([]multicast.Input, len(l.cores)), make([]multicast.Input, len(l.cores))
	l.covered = make([]multicast.Progress, len(l.cores))
	return l
}

// round multicasts a batch and steps every core once.
func (l *loop) round(batch int, payload []byte) {
	now, next := l.in[0], l.in[1]
	for range batch {
		l.seq++
		now[1].Proposed = append(now[1].Proposed, multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: l.seq}, Dest: l.dest, Payload: payload})
	}
	for i, c := range l.cores {
		l.out.Reset()
		now[i].Covered = l.covered[i]
		c.Step(&now[i], &l.out)
		now[i].Reset()
		for _, f := range l.out.Frames {
			next[f.Peer-1].Frames = append(next[f.Peer-1].Frames, multicast.Frame{Peer: c.self.id, Data: f.Data})
		}
		if k := len(l.out.Deliveries); k > 0 {
			l.covered[i] = multicast.UpTo(l.out.Deliveries[k-1].Position())
			l.delivered += k
		}
	}
	l.in[0], l.in[1] = next, now
}

func benchmark(b *testing.B, groups, batch int) {
	l := newLoop(b, groups)
	payload := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		l.round(batch, payload)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, l.delivered)), "ns/delivery")
}

func BenchmarkOneGroup(b *testing.B)        { benchmark(b, 1, 1) }
func BenchmarkOneGroupPacked(b *testing.B)  { benchmark(b, 1, 64) }
func BenchmarkTwoGroups(b *testing.B)       { benchmark(b, 2, 1) }
func BenchmarkTwoGroupsPacked(b *testing.B) { benchmark(b, 2, 64) }

// TestAllocations bounds the allocations of a delivery: with frames of 64 messages, START's destinations, the
// message, its tallies and its record.
func TestAllocations(t *testing.T) {
	l := newLoop(t, 1)
	payload := make([]byte, 256)
	for range 100 {
		l.round(64, payload)
	}
	before := l.delivered
	rounds := 0
	allocs := testing.AllocsPerRun(100, func() { l.round(64, payload); rounds++ })
	perDelivery := allocs / (float64(l.delivered-before) / float64(rounds))
	require.Less(t, perDelivery, 8.0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l.out.Reset()
		l.cores[0].Step(&multicast.Input{}, &l.out)
	}), "an idle step")
}
