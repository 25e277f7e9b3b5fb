package baselinetest

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Limits bound the resources that a protocol uses in a loop in memory.
type Limits struct {
	Round       time.Duration // that passes between two steps of a process
	Allocations float64       // in a round in which 64 messages are delivered six times: those of the frames
	Kept        int           // messages that a process keeps under load
}

// loop connects groups of three in memory: in each round every process receives the frames that all processes
// sent in the last round.
type loop struct {
	round     time.Duration
	cores     []multicast.Core
	in        [2][]multicast.Input
	out       multicast.Output
	now       time.Duration
	delivered int
	seq       uint64
}

// newLoop makes groups 0, 1, ... of processes 1, 2, 3, then 4, 5, 6 and so on.
func (p *Protocol) newLoop(t testing.TB, groups int) *loop {
	t.Helper()
	l := &loop{round: p.Loop.Round}
	var all []multicast.Group
	for g := range groups {
		first := multicast.ProcessID(3*g + 1)
		all = append(all, multicast.Group{ID: multicast.GroupID(g), Members: []multicast.ProcessID{first, first + 1, first + 2}})
	}
	l.in[0], l.in[1] = make([]multicast.Input, 3*groups), make([]multicast.Input, 3*groups)
	for i := range 3 * groups {
		c, err := p.New(multicast.ProcessID(i+1), all)
		require.NoError(t, err)
		l.cores = append(l.cores, c)
		for q := range 3 * groups {
			l.in[0][i].Frames = append(l.in[0][i].Frames, multicast.Frame{Peer: multicast.ProcessID(q + 1)})
		}
	}
	return l
}

// propose adds a batch of messages from the second process to its next step.
func (l *loop) propose(batch int, payload []byte, dest ...multicast.GroupID) {
	for range batch {
		l.seq++
		l.in[0][1].Proposed = append(l.in[0][1].Proposed,
			multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: l.seq}, Dest: dest, Payload: payload})
	}
}

// step steps every process once.
func (l *loop) step() {
	now, next := l.in[0], l.in[1]
	l.now += l.round
	for i, c := range l.cores {
		l.out.Reset()
		now[i].Now.Mono = l.now
		c.Step(&now[i], &l.out)
		now[i].Reset()
		for _, f := range l.out.Frames {
			next[f.Peer-1].Frames = append(next[f.Peer-1].Frames, multicast.Frame{Peer: multicast.ProcessID(i + 1), Data: f.Data})
		}
		l.delivered += len(l.out.Deliveries)
	}
	l.in[0], l.in[1] = next, now
}

func (l *loop) steps(rounds int) {
	for range rounds {
		l.step()
	}
}

// load multicasts a batch in each of some rounds.
func (l *loop) load(rounds, batch int, payload []byte, dest ...multicast.GroupID) {
	for range rounds {
		l.propose(batch, payload, dest...)
		l.step()
	}
}

// Benchmark measures the cost of steps, for a message and for a delivery.
func Benchmark(b *testing.B, p *Protocol) {
	for _, c := range []struct {
		name          string
		groups, batch int
		dest          []multicast.GroupID
	}{
		{"OneGroup", 1, 1, []multicast.GroupID{0}},
		{"OneGroupPacked", 1, 64, []multicast.GroupID{0}},
		{"TwoGroups", 2, 1, []multicast.GroupID{0, 1}},
		{"TwoGroupsPacked", 2, 64, []multicast.GroupID{0, 1}},
		{"OneOfTwoGroups", 2, 64, []multicast.GroupID{0}},
		{"TwoOfEightGroups", 8, 64, []multicast.GroupID{0, 1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := p.newLoop(b, c.groups)
			payload := make([]byte, 256)
			b.ReportAllocs()
			for b.Loop() {
				l.load(1, c.batch, payload, c.dest...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, l.delivered)), "ns/delivery")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, l.seq)), "ns/message")
		})
	}
}

// testAllocations: a message costs no allocation of its own, only the frames do.
func (p *Protocol) testAllocations(t *testing.T) {
	l := p.newLoop(t, 2)
	payload := make([]byte, 256)
	dest := []multicast.GroupID{0, 1}
	l.load(300, 64, payload, dest...)
	perRound := testing.AllocsPerRun(100, func() { l.load(1, 64, payload, dest...) })
	require.Less(t, perRound, p.Loop.Allocations, "frames of a round in which 64 messages are delivered six times")
	l.steps(500)
	var idle multicast.Input
	for i, c := range l.cores[:2] {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			l.out.Reset()
			c.Step(&idle, &l.out)
		}), "an idle step of process %d", i+1)
	}
}

// testMemory: a message that all have delivered is forgotten, also if a group that shared a message falls
// silent.
func (p *Protocol) testMemory(t *testing.T) {
	const warm, rounds = 500, 20_000
	l := p.newLoop(t, 3)
	payload := make([]byte, 1024)
	l.load(1, 10, payload, 0, 1, 2)
	l.load(warm, 1, payload, 0, 1)
	before := heapBytes()
	for i := range rounds {
		if i%2 == 0 {
			l.propose(4, payload, 0, 1)
		} else {
			l.propose(2, payload, 0, 1)
			l.propose(2, payload, 0)
		}
		l.step()
		for q, c := range l.cores {
			require.Less(t, p.Stats(c).Kept, p.Loop.Kept, "process %d after %d rounds", q+1, i)
		}
	}
	require.Less(t, heapBytes(), before+4<<20, "80,000 messages of 1 KiB")
	l.steps(500)
	for q, c := range l.cores {
		require.Equal(t, Stats{}, p.Stats(c), "process %d at rest", q+1)
	}
	require.Equal(t, 9*10+6*(warm+rounds/2*4+rounds/2*2)+3*rounds/2*2, l.delivered)
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
