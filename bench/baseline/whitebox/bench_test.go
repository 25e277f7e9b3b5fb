package whitebox

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// loop connects groups of three in memory: all hear in each round what all said in the last one.
type loop struct {
	cores     []*Core
	in        [2][]multicast.Input
	out       multicast.Output
	now       time.Duration
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
	l.in[0], l.in[1] = make([]multicast.Input, 3*groups), make([]multicast.Input, 3*groups)
	for p := range 3 * groups {
		c, err := New(Config{Self: multicast.ProcessID(p + 1), Groups: all})
		require.NoError(t, err)
		l.cores = append(l.cores, c)
		for q := range 3 * groups {
			l.in[0][p].Frames = append(l.in[0][p].Frames, multicast.Frame{Peer: multicast.ProcessID(q + 1)})
		}
	}
	return l
}

// round multicasts a batch from the second process and steps every core once; a round takes a millisecond.
func (l *loop) round(batch int, payload []byte, dest ...multicast.GroupID) {
	now, next := l.in[0], l.in[1]
	l.now += time.Millisecond
	for range batch {
		l.seq++
		now[1].Proposed = append(now[1].Proposed, multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: l.seq}, Dest: dest, Payload: payload})
	}
	for i, c := range l.cores {
		l.out.Reset()
		now[i].Now.Mono = l.now
		c.Step(&now[i], &l.out)
		now[i].Reset()
		for _, f := range l.out.Frames {
			next[f.Peer-1].Frames = append(next[f.Peer-1].Frames, multicast.Frame{Peer: c.self.id, Data: f.Data})
		}
		l.delivered += len(l.out.Deliveries)
	}
	l.in[0], l.in[1] = next, now
}

func benchmark(b *testing.B, groups, batch int) {
	l := newLoop(b, groups)
	payload := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		l.round(batch, payload, l.dest...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, l.delivered)), "ns/delivery")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, l.seq)), "ns/message")
}

func BenchmarkOneGroup(b *testing.B)        { benchmark(b, 1, 1) }
func BenchmarkOneGroupPacked(b *testing.B)  { benchmark(b, 1, 64) }
func BenchmarkTwoGroups(b *testing.B)       { benchmark(b, 2, 1) }
func BenchmarkTwoGroupsPacked(b *testing.B) { benchmark(b, 2, 64) }

// TestAllocations: a message costs no allocation of its own, only the frames do.
func TestAllocations(t *testing.T) {
	l := newLoop(t, 2)
	payload := make([]byte, 256)
	for range 100 {
		l.round(64, payload, 0, 1)
	}
	perRound := testing.AllocsPerRun(100, func() { l.round(64, payload, 0, 1) })
	require.Less(t, perRound, 30.0, "frames of a round in which 64 messages are delivered six times")
	for range 300 {
		l.round(0, nil)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		l.out.Reset()
		l.cores[0].Step(&multicast.Input{}, &l.out)
	}), "an idle step")
}

// TestMemoryStaysFlat: what all have delivered is forgotten, also if a group that shared a message falls silent.
func TestMemoryStaysFlat(t *testing.T) {
	l := newLoop(t, 3)
	payload := make([]byte, 1024)
	l.round(10, payload, 0, 1, 2)
	for range 300 {
		l.round(1, payload, 0, 1)
	}
	before := heapBytes()
	for i := range 20_000 {
		l.round(4, payload, 0, 1)
		for p, c := range l.cores {
			if n := c.Stats().Kept; n > 100 {
				t.Fatalf("process %d keeps %d messages after %d rounds", p+1, n, i)
			}
		}
	}
	require.Less(t, heapBytes(), before+4<<20, "80,000 messages of 1 KiB")
	for range 300 {
		l.round(0, nil)
	}
	for p, c := range l.cores {
		require.Equal(t, Stats{}, c.Stats(), "process %d at rest", p+1)
	}
	require.Equal(t, 3*3*10+2*3*(300+80_000), l.delivered)
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
