package ordering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/skeen"
)

// recorder is a core that notes the size of the input of each step, and sends given frames.
type recorder struct {
	steps []int // frames with data
	at    []time.Duration
	wake  time.Duration
	say   []multicast.Frame // in the next step
}

func (r *recorder) Replay([]byte) error { return nil }

func (r *recorder) Step(in *multicast.Input, out *multicast.Output) {
	frames := 0
	for _, f := range in.Frames {
		if len(f.Data) > 0 {
			frames++
		}
	}
	r.steps, r.at = append(r.steps, frames), append(r.at, in.Now.Mono)
	out.Frames, r.say = append(out.Frames, r.say...), nil
	out.Wake, r.wake = r.wake, 0
}

// recorders gives a network of two processes, in two groups, with links of 10 ms.
func recorders(t *testing.T, cost Cost) (*network, []*recorder) {
	var cores []*recorder
	groups, places := deployment(2, 1)
	scenario := Scenario{roundTrip: func(place, place) time.Duration { return 20 * time.Millisecond }}
	n, err := newNetwork(build{
		scenario: &scenario, cost: cost, groups: groups, places: places,
		protocol: &Protocol{New: func(*setting) (multicast.Core, error) {
			cores = append(cores, &recorder{})
			return cores[len(cores)-1], nil
		}},
	})
	require.NoError(t, err)
	return n, cores
}

func nothing() error { return nil }

// Input that arrives while a process is busy goes into one step when the process is free.
func TestBusyProcessGathers(t *testing.T) {
	n, cores := recorders(t, Cost{Frame: 5 * time.Millisecond, Wake: time.Millisecond})
	p := n.processes[0]
	n.schedule(100*time.Millisecond, func() {
		for range 3 { // the first one is stepped alone: the others find p busy
			p.receive(multicast.Frame{Peer: 2, Data: []byte{1}})
		}
	})
	n.schedule(104*time.Millisecond, func() { p.receive(multicast.Frame{Peer: 2, Data: []byte{1}}) })
	require.NoError(t, n.run(time.Second, nothing))
	require.Equal(t, []int{0, 1, 3}, cores[0].steps)
	const free = 100 + 1 + 5 // woken up, one frame
	require.Equal(t, []time.Duration{0, 100 * time.Millisecond, free * time.Millisecond}, cores[0].at)
	require.Equal(t, 22*time.Millisecond, n.uses()[0].busy, "two waking up, four frames")
}

// A frame leaves at the end of the step that made it, and takes the link's time. A frame of a process to
// itself is free.
func TestFrameLeavesWhenTheStepEnds(t *testing.T) {
	n, cores := recorders(t, Cost{Frame: 2 * time.Millisecond, Wake: time.Millisecond})
	n.schedule(100*time.Millisecond, func() {
		cores[0].say = []multicast.Frame{{Peer: 1, Data: []byte{1}}, {Peer: 2, Data: []byte{1}}}
		n.processes[0].wake()
	})
	require.NoError(t, n.run(time.Second, nothing))
	require.Equal(t, []int{0, 0, 1}, cores[0].steps)
	require.Equal(t, 103*time.Millisecond, cores[0].at[2], "at once, when the step is over")
	require.Equal(t, []int{0, 1}, cores[1].steps)
	require.Equal(t, 113*time.Millisecond, cores[1].at[1])
	require.Equal(t, 1, n.uses()[0].frames)
}

// The second frame waits until the first one has passed the network interface.
func TestBandwidth(t *testing.T) {
	n, cores := recorders(t, Cost{Bandwidth: 8000}) // a byte a millisecond
	n.schedule(0, func() {
		for range 2 {
			n.send(n.processes[0], multicast.Frame{Peer: 2, Data: make([]byte, 22)})
		}
	})
	require.NoError(t, n.run(time.Second, nothing))
	require.Equal(t, []time.Duration{0, 110 * time.Millisecond, 210 * time.Millisecond}, cores[1].at)
}

func TestWake(t *testing.T) {
	n, cores := recorders(t, Cost{Wake: time.Millisecond})
	cores[0].wake, cores[1].wake = 50*time.Millisecond, 50*time.Millisecond
	n.schedule(40*time.Millisecond, n.processes[1].wake) // this step asks for nothing
	require.NoError(t, n.run(time.Second, nothing))
	require.Equal(t, []time.Duration{0, 50 * time.Millisecond}, cores[0].at)
	require.Equal(t, []time.Duration{0, 40 * time.Millisecond}, cores[1].at)
}

// Latencies deviate, and frames keep their order.
func TestLinksDeviateInOrder(t *testing.T) {
	n, _ := recorders(t, Cost{})
	n.scenario.deviation = deviation
	var latencies sample
	last := time.Duration(0)
	for range 2000 {
		n.now += 20 * time.Millisecond
		n.send(n.processes[0], multicast.Frame{Peer: 2, Data: []byte{1}})
		at := n.links[0][1].last
		require.GreaterOrEqual(t, at, last)
		latencies, last = append(latencies, at-n.now), at
	}
	latencies.distribution()
	require.InDelta(t, 10, milliseconds(latencies.percentile(50)), 0.3)
	require.InDelta(t, 10.5, milliseconds(latencies.percentile(84)), 0.3, "one standard deviation")
}

// Skeen's protocol needs two steps (T 5.3), and the network adds none. Here the receiver needs only one: the
// sender's timestamp comes with the message.
func TestNetworkAddsNoSteps(t *testing.T) {
	groups, places := deployment(2, 1)
	scenario := uniform()
	n, err := newNetwork(build{
		scenario: &scenario, groups: groups, places: places,
		protocol: &Protocol{New: func(s *setting) (multicast.Core, error) {
			return skeen.New(skeen.Config{Self: s.self, Groups: s.groups})
		}},
	})
	require.NoError(t, err)
	var delivered []time.Duration
	for _, p := range n.processes {
		p.deliver = func(*process, *multicast.Delivery) { delivered = append(delivered, n.now) }
	}
	m := multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{0, 1}}
	n.schedule(unit, func() { n.processes[0].propose(m) })
	require.NoError(t, n.run(20*unit, nothing))
	require.Equal(t, []time.Duration{2 * unit, 3 * unit}, delivered)
}

func TestScenarios(t *testing.T) {
	all := Scenarios()
	between := func(s int, a, b place) time.Duration { return all[s].roundTrip(a, b) }
	require.Equal(t, lanRoundTrip, between(0, place{0, 0}, place{7, 2}))
	require.Equal(t, lanRoundTrip, between(1, place{0, 0}, place{7, 0}), "leaders are colocated")
	require.Equal(t, 130*time.Millisecond, between(1, place{0, 2}, place{0, 1}))
	require.Equal(t, 30*time.Millisecond, between(2, place{3, 0}, place{3, 2}))
	require.Equal(t, 90*time.Millisecond, between(2, place{3, 1}, place{4, 1}))
	for i, longest := range []time.Duration{lanRoundTrip, 130 * time.Millisecond, 90 * time.Millisecond} {
		require.Equal(t, longest, all[i].longest(), all[i].Name)
	}
}
