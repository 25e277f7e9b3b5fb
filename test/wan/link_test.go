package wan

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/heap"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func shaped(link Link) *path { return &path{Traffic: Traffic{Link: link}, index: -1} }

func TestJitterKeepsTheOrder(t *testing.T) {
	p, random := shaped(Link{Delay: 10 * time.Millisecond, Jitter: 8 * time.Millisecond}), seeded()
	var last, least, most time.Duration
	least = time.Hour
	for now := time.Duration(0); now < 10*time.Second; now += 5 * time.Millisecond {
		due, ok := p.admit(now, 100, random)
		require.True(t, ok)
		require.GreaterOrEqual(t, due, last)
		require.GreaterOrEqual(t, due, now+2*time.Millisecond)
		require.LessOrEqual(t, due, now+18*time.Millisecond)
		least, most, last = min(least, due-now), max(most, due-now), due
	}
	require.Less(t, least, 4*time.Millisecond)
	require.Greater(t, most, 16*time.Millisecond)
}

func TestJitterLongerThanTheDelay(t *testing.T) {
	p, random := shaped(Link{Delay: time.Millisecond, Jitter: time.Second}), seeded()
	for range 100 {
		due, ok := p.admit(time.Minute, 100, random)
		require.True(t, ok)
		require.GreaterOrEqual(t, due, time.Minute)
	}
}

func TestBandwidthSpacesPackets(t *testing.T) {
	p := shaped(Link{Delay: time.Second, Rate: 8_000_000}) // a byte a microsecond
	for i := range 100 {
		due, ok := p.admit(0, 1000, nil)
		require.True(t, ok)
		require.Equal(t, time.Second+time.Duration(i+1)*time.Millisecond, due)
	}
	due, ok := p.admit(10*time.Second, 1000, nil)
	require.True(t, ok)
	require.Equal(t, 11*time.Second+time.Millisecond, due, "bandwidth that nobody used is gone")
}

func TestBandwidthQueueIsBounded(t *testing.T) {
	p := shaped(Link{Rate: 8_000_000})
	var passed int
	for range 1000 {
		due, ok := p.admit(0, 1000, nil)
		if ok {
			passed++
			require.LessOrEqual(t, due, longestWait+2*time.Millisecond)
		}
	}
	require.Equal(t, int(longestWait/time.Millisecond)+1, passed)
	require.EqualValues(t, 1000-passed, p.Dropped)
}

func TestLossIsAsConfigured(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.3, 1} {
		p, random := shaped(Link{Loss: loss}), seeded()
		const n = 100_000
		for range n {
			p.admit(0, 100, random)
		}
		require.InDelta(t, loss, float64(p.Lost)/n, 0.01)
	}
}

func TestMemoryOfAPathIsBounded(t *testing.T) {
	p := shaped(Link{Delay: time.Hour})
	frame := make([]byte, largest)
	for p.Dropped == 0 {
		if due, ok := p.admit(0, len(frame), nil); ok {
			p.push(frame, due)
		}
		require.LessOrEqual(t, p.held, mostHeld)
	}
	require.Greater(t, p.held, mostHeld-2*largest)
}

// A path that becomes fast is fast at once, and keeps the order. A path that becomes slow does not delay
// packets in flight.
func TestReshapeMovesWhatIsInFlight(t *testing.T) {
	p := shaped(Link{Delay: time.Minute})
	for now := range time.Duration(3) {
		due, _ := p.admit(now*30*time.Second, 1, nil)
		p.push([]byte{byte(now)}, due)
	}
	p.reshape(Link{Delay: time.Second}, time.Minute)
	require.Equal(t, time.Minute, p.due())
	require.Equal(t, []byte{0}, p.pop())
	require.Equal(t, time.Minute+time.Second, p.due())
	require.Equal(t, []byte{1}, p.pop())
	require.Equal(t, time.Minute+time.Second, p.due())
	due, ok := p.admit(time.Minute, 1, nil)
	require.True(t, ok)
	require.Equal(t, time.Minute+time.Second, due)

	p.reshape(Link{Delay: time.Hour}, time.Minute)
	require.Equal(t, time.Minute+time.Second, p.due())
}

// For any sequence of pushes and pops, the queue returns its packets in order and frees its memory.
func TestQueueIsFIFO(t *testing.T) {
	p, random := shaped(Link{}), seeded()
	var in, out uint32
	for range 20_000 {
		for range random.IntN(5) {
			p.push([]byte{byte(in), byte(in >> 8), byte(in >> 16)}, time.Duration(in))
			in++
		}
		for range random.IntN(5) {
			if p.inFlight() {
				require.Equal(t, time.Duration(out), p.due())
				require.Equal(t, []byte{byte(out), byte(out >> 8), byte(out >> 16)}, p.pop())
				out++
			}
		}
	}
	for p.inFlight() {
		p.pop()
	}
	require.Zero(t, p.held)
	require.Zero(t, p.head)
	require.Empty(t, p.queue)
}

func TestScheduleGivesWhatIsDueFirst(t *testing.T) {
	random := seeded()
	var s heap.Heap[*path]
	for range 100 {
		p := shaped(Link{})
		p.push(nil, time.Duration(random.IntN(1000)))
		s.Push(p)
	}
	for i, p := range s {
		require.Equal(t, i, p.index)
	}
	last := time.Duration(0)
	for len(s) > 0 {
		p := s.Pop()
		require.GreaterOrEqual(t, p.due(), last)
		require.Equal(t, -1, p.index)
		last = p.due()
	}
}

func TestBadLinksAreRefused(t *testing.T) {
	for _, link := range []Link{
		{Delay: -1}, {Jitter: -1}, {Loss: -0.1}, {Loss: 1.1}, {Loss: math.NaN()}, {Rate: -1},
	} {
		require.Error(t, link.validate(), "%+v", link)
	}
	require.NoError(t, (&Link{Delay: time.Second, Jitter: time.Hour, Loss: 1, Rate: math.MaxInt64, Down: true}).validate())
}

func TestLate(t *testing.T) {
	var s Stats
	require.Zero(t, s.Late(0.99))
	for range 90 {
		s.late.add(time.Microsecond)
	}
	for range 10 {
		s.late.add(100 * time.Microsecond)
	}
	s.late.add(time.Hour)
	require.Equal(t, 8*time.Microsecond, s.Late(0))
	require.Equal(t, 8*time.Microsecond, s.Late(0.5))
	require.Equal(t, 128*time.Microsecond, s.Late(0.95))
	require.Equal(t, leastLate<<17, s.Late(1))
}
