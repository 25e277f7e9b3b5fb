package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Two runs with the same seed are equal: the seed determines all random choices.
func TestSameSeedSameRun(t *testing.T) {
	hashes := map[uint64]bool{}
	for seed := uint64(1); seed <= 30; seed++ {
		cfg, w, p := primCastRun(seed)
		w.SendersFinish = true
		first, err := Run(cfg, w, p)
		require.NoError(t, err)
		second, err := Run(cfg, w, p)
		require.NoError(t, err)
		require.Equal(t, first, second, "seed %d", seed)
		hashes[first.Hash] = true
	}
	require.Len(t, hashes, 30, "different seeds, different runs")
}

func TestTraceShowsWhatHappens(t *testing.T) {
	var b bytes.Buffer
	cfg := unit(1, 1)
	cfg.Trace = &b
	_, err := Run(cfg, everybody(&cfg, 1, time.Second), skeenProtocol)
	require.NoError(t, err)
	require.Contains(t, b.String(), "1 deliver 1 1 1\n")
}

// counter sends a number to each peer with every step, counting from 1 on each link that starts, and records
// how many steps it took. It checks the promises of multicast.Frame.
type counter struct {
	t        *testing.T
	self     multicast.ProcessID
	peers    []multicast.ProcessID
	steps    uint64
	sent     map[multicast.ProcessID]uint64
	received map[multicast.ProcessID]uint64
	started  map[multicast.ProcessID]bool
	world    *counters
}

// counters is the state that outlives the processes.
type counters struct {
	left     map[multicast.ProcessID]uint64 // the highest step whose output has left
	restarts int
	starts   int // of links
	got      int // frames
}

func (c *counter) Step(in *turn.Input, out *turn.Output) {
	for _, f := range in.Frames {
		if len(f.Data) == 0 {
			c.started[f.Peer] = true
			c.sent[f.Peer], c.received[f.Peer] = 0, 0
			c.world.starts++
			continue
		}
		n, _ := binary.Uvarint(f.Data)
		require.True(c.t, c.started[f.Peer], "a link's first event is its start")
		require.Equal(c.t, c.received[f.Peer]+1, n, "frames of a link have an order and no gaps")
		c.received[f.Peer] = n
		c.world.got++
	}
	c.steps++
	out.Records = append(out.Records, binary.AppendUvarint(nil, c.steps))
	out.Checkpoint = c.steps%7 == 0
	for _, p := range c.peers {
		c.sent[p]++
		out.Frames = append(out.Frames, multicast.Frame{Peer: p, Data: binary.AppendUvarint(nil, c.sent[p])})
	}
	out.Wake = in.Now.Mono + 10*time.Millisecond
}

func (*counter) Syncs(*turn.Output) bool { return false }

func (c *counter) Apply(out *turn.Output) ([]turn.Call, error) {
	n, _ := binary.Uvarint(out.Records[0])
	require.Equal(c.t, c.world.left[c.self]+1, n, "outputs leave in order, each once")
	c.world.left[c.self] = n
	return nil, nil
}

func (c *counter) Wake() time.Duration { return 0 }

// The network keeps its promises under all faults.
func TestNetworkKeepsItsPromises(t *testing.T) {
	var reach Reach
	for seed := uint64(1); seed <= 20; seed++ {
		cfg, _ := config(seed, 3, 2)
		cfg.DiskMax = 5 * time.Millisecond
		cfg.Faults = Faults{
			Every: 10 * time.Millisecond, Longest: 60 * time.Millisecond,
			Pause: 1, Stall: 1, Cut: 1, Lag: 1, Reset: 1, SlowDisk: 1, Jump: 1, Crash: 1, CrashAll: 1, Chase: 1,
			LagMax: 100 * time.Millisecond,
		}
		cfg.Regions = [][]multicast.ProcessID{{1, 7}, {3, 9}}
		w := &counters{left: map[multicast.ProcessID]uint64{}}
		var all []multicast.ProcessID
		for _, g := range cfg.Groups {
			all = append(all, g.Members...)
		}
		n, err := New(cfg, func(self multicast.ProcessID, incarnation uint64, records [][]byte) (turn.Node, error) {
			c := &counter{
				t: t, self: self, peers: all, world: w, sent: map[multicast.ProcessID]uint64{},
				received: map[multicast.ProcessID]uint64{}, started: map[multicast.ProcessID]bool{},
			}
			if incarnation > 1 {
				w.restarts++
			}
			for i, r := range records {
				step, _ := binary.Uvarint(r)
				if i == 0 {
					require.True(t, step == 1 || step%7 == 0, "the first one is a checkpoint")
				} else {
					require.Equal(t, c.steps+1, step)
				}
				c.steps = step
			}
			require.GreaterOrEqual(t, c.steps, w.left[self], "what has left is durable")
			w.left[self] = c.steps // durable output that has not left never will
			return c, nil
		})
		require.NoError(t, err)
		require.True(t, n.Run(500*time.Millisecond))
		n.Heal()
		require.True(t, n.Run(700*time.Millisecond))
		for _, p := range all {
			require.True(t, n.Up(p))
		}
		require.Greater(t, w.got, 300)
		require.Greater(t, w.restarts, 5)
		require.Greater(t, w.starts, 50)
		reach.add(Reach{Marks: n.Marks()})
	}
	reach.requireMarks(t, Unsent, CutFrames, CutOneWay, CutRegion, CutSurvived, CutRestart, Late, Chased)
}

// echo answers requests, the even ones after a delay behind its gate.
type echo struct {
	t        *testing.T
	executed map[string]int
	gated    []turn.Call
	taken    map[uint64]bool // tokens; false: withdrawn
}

func (e *echo) Step(in *turn.Input, out *turn.Output) {
	for _, r := range in.Requests {
		e.taken[r.Token] = true
		e.executed[string(r.Data)]++
		reply := turn.Call{Token: r.Token, Data: append([]byte("re "), r.Data...)}
		if r.Data[len(r.Data)-1]%2 == 0 {
			e.gated = append(e.gated, reply)
			out.Records = append(out.Records, r.Data)
		} else {
			out.Replies = append(out.Replies, reply)
		}
	}
	for _, token := range in.Withdrawn {
		require.True(e.t, e.taken[token], "what is withdrawn was asked of this incarnation, and is withdrawn once")
		e.taken[token] = false
	}
}

func (*echo) Syncs(*turn.Output) bool { return false }

func (e *echo) Apply(*turn.Output) ([]turn.Call, error) {
	replies := e.gated
	e.gated = nil
	return replies, nil
}

func (e *echo) Wake() time.Duration { return 0 }

// TestCalls: each call ends once. An answered call was executed. A call without an answer may have been
// executed, and some of these are withdrawn.
func TestCalls(t *testing.T) {
	cfg, _ := config(3, 3)
	cfg.Faults = Faults{Every: 20 * time.Millisecond, Longest: 50 * time.Millisecond, Pause: 1, Crash: 2, LossPercent: 10, RepeatPercent: 10, WithdrawPercent: 100}
	executed := map[string]int{}
	n, err := New(cfg, func(multicast.ProcessID, uint64, [][]byte) (turn.Node, error) {
		return &echo{t: t, executed: executed, taken: map[uint64]bool{}}, nil
	})
	require.NoError(t, err)
	var answered, lost, lostAndExecuted, repeated int
	call := func(i int) {
		request := fmt.Sprint("request ", i)
		ended := false
		n.Call(cfg.Groups[0].Members[i%3], turn.Call{Data: []byte(request)}, 200*time.Millisecond, func(reply []byte, ok bool) {
			require.False(t, ended)
			ended = true
			switch {
			case ok:
				require.Equal(t, "re "+request, string(reply))
				require.Positive(t, executed[request])
				answered++
			default:
				lost++
				lostAndExecuted += min(1, executed[request])
			}
			repeated += max(0, executed[request]-1)
		})
	}
	for i := range 1000 {
		n.Schedule(time.Duration(i)*2*time.Millisecond, func() { call(i) })
	}
	n.Run(2 * time.Second)
	n.Heal()
	n.Run(3 * time.Second)
	require.Equal(t, 1000, answered+lost)
	require.Greater(t, answered, 300)
	require.Greater(t, lost, 100)
	require.Greater(t, lostAndExecuted, 30)
	require.Greater(t, repeated, 10)
	require.Positive(t, n.Marks()[Withdrawn])
	before := answered
	for i := range 100 {
		call(i)
		n.Run(n.Now() + time.Second)
	}
	require.Equal(t, before+100, answered, "a healed network loses nothing")
}

// BenchmarkPrimCast gives the speed of the simulator with its main load.
func BenchmarkPrimCast(b *testing.B) {
	events := uint64(0)
	for seed := uint64(1); b.Loop(); seed++ {
		cfg, w, p := primCastRun(seed)
		w.SendersFinish, w.Payload = true, 20
		r, err := Run(cfg, w, p)
		require.NoError(b, err)
		events += r.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(events)/float64(b.N), "events/run")
}
