package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/skeen"
)

// heard is a number that a ticker received, with the time.
type heard struct {
	at   time.Duration
	from multicast.ProcessID
	tick int // 0: the link starts
}

// ticker sends a number to its peers every few milliseconds, and keeps the numbers that it receives.
type ticker struct {
	peers []multicast.ProcessID
	tick  int
	due   time.Duration
	heard []heard
	net   *Network
}

func (x *ticker) Step(in *turn.Input, out *turn.Output) {
	for _, f := range in.Frames {
		h := heard{at: x.net.Now(), from: f.Peer}
		if len(f.Data) > 0 {
			h.tick = int(f.Data[0])<<8 | int(f.Data[1])
		}
		x.heard = append(x.heard, h)
	}
	out.Wake = x.due
	if in.Now.Mono < x.due {
		return
	}
	x.tick++
	x.due = in.Now.Mono + 5*time.Millisecond
	out.Wake = x.due
	for _, p := range x.peers {
		out.Frames = append(out.Frames, multicast.Frame{Peer: p, Data: []byte{byte(x.tick >> 8), byte(x.tick)}})
	}
}

func (*ticker) Syncs(*turn.Output) bool { return false }

func (x *ticker) Apply(*turn.Output) ([]turn.Call, error) { return nil, nil }
func (x *ticker) Wake() time.Duration                     { return 0 }

// tickers runs one on each process for a while.
func tickers(t *testing.T, cfg Config) *Network {
	var n *Network
	var booted []*ticker
	n, err := New(cfg, func(self multicast.ProcessID, _ uint64, _ [][]byte) (turn.Node, error) {
		x := &ticker{net: n}
		for _, g := range cfg.Groups {
			for _, p := range g.Members {
				if p != self {
					x.peers = append(x.peers, p)
				}
			}
		}
		booted = append(booted, x)
		return x, nil
	})
	require.NoError(t, err)
	for _, x := range booted {
		x.net = n
	}
	n.Run(50 * time.Millisecond)
	return n
}

// after returns the numbers of the messages that p has received from a peer since a time.
func after(n *Network, p, from multicast.ProcessID, at time.Duration) (found []heard) {
	for _, h := range n.Node(p).(*ticker).heard {
		if h.from == from && h.at >= at {
			found = append(found, h)
		}
	}
	return found
}

// TestCutOneWay: one direction loses frames, the other does not, and then both start anew.
func TestCutOneWay(t *testing.T) {
	n := tickers(t, Default())
	cut := n.Now()
	require.NotEmpty(t, n.processes[1].links[2].flight)
	n.cutLink(n.processes[1], n.processes[2], cut+100*time.Millisecond)
	n.reset(n.processes[1])
	n.Run(cut + 99*time.Millisecond)
	require.Empty(t, after(n, 2, 1, cut), "nothing arrives, not even what was on the way")
	require.NotEmpty(t, after(n, 1, 2, cut), "the other direction works")
	n.Run(cut + 150*time.Millisecond)
	there, back := after(n, 2, 1, cut), after(n, 1, 2, cut+100*time.Millisecond)
	require.Zero(t, there[0].tick, "the link starts before anything else arrives")
	require.Zero(t, back[0].tick)
	require.NotZero(t, there[1].tick)
	require.Equal(t, cut+100*time.Millisecond, there[0].at)
}

// TestCutsOverlap: a link is mended when the last cut of either direction ends, and only then a process that
// has restarted meanwhile is connected.
func TestCutsOverlap(t *testing.T) {
	n := tickers(t, Default())
	cut := n.Now()
	p, q := n.processes[1], n.processes[2]
	n.cutLink(p, q, cut+50*time.Millisecond)
	n.cutLink(q, p, cut+150*time.Millisecond)
	n.cutLink(p, q, cut+20*time.Millisecond)
	n.crash(cut+30*time.Millisecond, p)
	n.Run(cut + 149*time.Millisecond)
	require.True(t, n.Up(1))
	require.Empty(t, after(n, 1, 2, 0))
	require.Empty(t, after(n, 2, 1, cut))
	require.NotEmpty(t, after(n, 1, 3, 0))
	n.Run(cut + 200*time.Millisecond)
	require.NotEmpty(t, after(n, 1, 2, 0))
	require.NotEmpty(t, after(n, 2, 1, cut))
}

// Heal ends a cut and a lag at once. Their scheduled ends have no effect later.
func TestHealEndsCutAndLag(t *testing.T) {
	n := tickers(t, Default())
	at := n.Now()
	n.cutLink(n.processes[1], n.processes[2], at+time.Second)
	n.processes[3].links[2].slow(10*time.Second, at+5*time.Second)
	n.Run(at + 100*time.Millisecond)
	late := after(n, 2, 3, at+3*time.Millisecond)
	require.Empty(t, late)
	n.Heal()
	healed := n.Now()
	n.Run(healed + 2*time.Second)
	require.Zero(t, after(n, 2, 1, at)[0].tick)
	require.Equal(t, healed, after(n, 2, 1, at)[0].at)
	for _, h := range after(n, 2, 1, at)[1:] {
		require.NotZero(t, h.tick, "no second restart")
	}
	late = after(n, 2, 3, healed)
	require.LessOrEqual(t, late[0].at, healed+Default().LatencyMax)
	for i, h := range late[1:] {
		require.Equal(t, late[i].tick+1, h.tick, "frames keep their order")
		require.GreaterOrEqual(t, h.at, late[i].at)
	}
}

// A lag delays frames by a time. Frames behind them wait for them.
func TestLag(t *testing.T) {
	n := tickers(t, Default())
	at := n.Now()
	n.processes[1].links[2].slow(300*time.Millisecond, at+50*time.Millisecond)
	n.Run(at + time.Second)
	arrived := after(n, 2, 1, at+Default().LatencyMax+1)
	require.GreaterOrEqual(t, arrived[0].at, at+300*time.Millisecond)
	for i, h := range arrived[1:] {
		require.Equal(t, arrived[i].tick+1, h.tick)
	}
	require.Positive(t, n.Marks()[Late])
}

// TestKill: at any time a majority of each group is there, and killed processes never return.
func TestKill(t *testing.T) {
	var reach Reach
	for seed := uint64(1); seed <= 20; seed++ {
		cfg, _ := config(seed, 1, 2, 3, 5)
		cfg.Faults = Faults{Every: 10 * time.Millisecond, Longest: 50 * time.Millisecond, Kill: 1, Crash: 1}
		var dead []multicast.ProcessID
		cfg.Faults.Killed = func(p multicast.ProcessID) { dead = append(dead, p) }
		n := tickers(t, cfg)
		n.Run(time.Second)
		n.Heal()
		n.RestartAll()
		n.Run(2 * time.Second)
		require.Len(t, dead, 1+2, "of the groups of three and of five")
		for i, g := range cfg.Groups {
			require.Equal(t, []int{1, 2, 2, 3}[i], n.alive(&g))
		}
		for _, id := range n.ids {
			require.NotEqual(t, n.processes[id].away, n.Up(id))
		}
		reach.add(Reach{Marks: n.Marks()})
	}
	reach.requireMarks(t, Killed, KilledMost)
}

// A spare is down until it is started, also if the network is healed before. Then all processes are linked to
// it.
func TestSpare(t *testing.T) {
	cfg := Default()
	cfg.Spares = []multicast.ProcessID{9}
	n := tickers(t, cfg)
	n.Heal()
	n.Run(100 * time.Millisecond)
	require.False(t, n.Up(9))
	n.Start(9)
	n.Run(200 * time.Millisecond)
	require.True(t, n.Up(9))
	for _, p := range cfg.Groups[0].Members {
		require.NotEmpty(t, after(n, p, 9, 0))
		require.Zero(t, after(n, 9, p, 0)[0].tick)
	}
}

// A chase stops the leader, and then its successor soon after the successor leads.
func TestChase(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		cfg, _ := config(seed, 3)
		cfg.Faults.Longest = 100 * time.Millisecond
		var n *Network
		// The member leads that has been up for longest.
		cfg.Faults.Leads = func(p multicast.ProcessID) bool {
			for _, q := range n.processes {
				if q.up && q.started < n.processes[p].started {
					return false
				}
			}
			return true
		}
		n = tickers(t, cfg)
		n.chase(n.processes[1])
		n.Run(time.Second)
		starts := 0
		for _, p := range cfg.Groups[0].Members {
			require.True(t, n.Up(p))
			starts += int(n.Incarnation(p)) - 1
		}
		require.Greater(t, starts, 1)
		require.LessOrEqual(t, starts, chaseMost)
		require.Positive(t, n.Marks()[Chased])
	}
}

// restless steps for ever, as a protocol with heartbeats does.
type restless struct{ multicast.Core }

func (x restless) Step(in *multicast.Input, out *multicast.Output) {
	x.Core.Step(in, out)
	out.Wake = in.Now.Mono + time.Millisecond
}

func TestRunEndsThoughItIsNeverQuiet(t *testing.T) {
	cfg, w := skeenRun(1)
	p := skeenProtocol
	p.New = func(self multicast.ProcessID, groups []multicast.Group, at multicast.Progress) (multicast.Core, error) {
		core, err := skeenProtocol.New(self, groups, at)
		return restless{core}, err
	}
	p.AtRest = func(core multicast.Core) error { return skeenProtocol.AtRest(core.(restless).Core) }
	p.Size = func(core multicast.Core) int { return core.(restless).Core.(*skeen.Core).Pending() }
	r, err := Run(cfg, w, p)
	require.NoError(t, err)
	require.Empty(t, r.Violations)
	require.Positive(t, r.Size)
	require.LessOrEqual(t, r.Size, w.Messages)
}

// silent is the core of a process that does nothing.
type silent struct{}

func (silent) Replay([]byte) error                      { return nil }
func (silent) Step(*multicast.Input, *multicast.Output) {}

// TestRunReplacesTheKilled: a spare replaces each killed process, as long as spares are left.
func TestRunReplacesTheKilled(t *testing.T) {
	var reach Reach
	for seed := uint64(1); seed <= 20; seed++ {
		cfg, _ := config(seed, 3, 5)
		cfg.Spares = []multicast.ProcessID{100, 101}
		cfg.Faults = Faults{Every: 20 * time.Millisecond, Longest: 100 * time.Millisecond, Kill: 1}
		w := everybody(&cfg, 30, 20*time.Millisecond)
		replaced := map[multicast.ProcessID]multicast.ProcessID{}
		r, err := Run(cfg, w, Protocol{
			New: func(multicast.ProcessID, []multicast.Group, multicast.Progress) (multicast.Core, error) {
				return silent{}, nil
			},
			NewSpare: func(_, _ multicast.ProcessID, _ []multicast.Group, _ multicast.Progress) (multicast.Core, error) {
				return silent{}, nil
			},
			Replace: func(n *Network, _ multicast.GroupID, what multicast.Replacement, _ func()) {
				require.False(t, n.Up(what.Old))
				require.True(t, n.Up(what.New))
				require.NotContains(t, replaced, what.Old)
				replaced[what.Old] = what.New
			},
		})
		require.NoError(t, err)
		require.NotEmpty(t, replaced)
		require.Len(t, replaced, r.Reach.Marks[Replaced])
		reach.add(r.Reach)
	}
	require.Greater(t, reach.Marks[Replaced], 30)
}
