package fabricsim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabrictest"
)

// cluster makes nodes 1 to 3.
func cluster(cfg Config) (*Network, *fabrictest.Cluster) {
	n := New(cfg)
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}}
	for id := range fabric.NodeID(3) {
		c.Nodes[id+1] = n.Node(id + 1)
	}
	c.Cut = func(a, b fabric.NodeID) func() {
		n.Cut(a, b)
		n.Cut(b, a)
		return func() {
			n.Mend(a, b)
			n.Mend(b, a)
		}
	}
	return n, c
}

func TestConformance(t *testing.T) {
	for seed := range uint64(2) {
		for name, faults := range map[string]Faults{
			"no faults": {},
			"torn":      {Tear: 60, TearMax: 5 * time.Microsecond, Late: 20, LateMax: 20 * time.Microsecond},
		} {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				fabrictest.Run(t, func(*testing.T) *fabrictest.Cluster {
					cfg := Default()
					cfg.Seed, cfg.Faults = seed, faults
					_, c := cluster(cfg)
					return c
				})
			})
		}
	}
}

// rough returns a configuration with all faults.
func rough(seed uint64) Config {
	cfg := Default()
	cfg.Seed = seed
	cfg.Faults = Faults{
		Lose: 5, LoseReply: 5, Late: 20, LateMax: 3 * time.Millisecond, Tear: 50, TearMax: 5 * time.Microsecond,
	}
	return cfg
}

// TestLost: under all faults, successful writes are in the memory, no write lands after a reset of its queue,
// and every operation has one completion, in order.
func TestLost(t *testing.T) {
	var reached Stats
	landed := 0
	for seed := range uint64(200) {
		n, c := cluster(rough(seed))
		m, err := c.Nodes[2].Register(1, 64)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[2].Grant(1, 1, fabric.Writable))
		next, broken, seen, sure := uint64(1), false, uint64(0), uint64(0)
		var tokens []uint64
		var e fabric.Events
		for range 200 {
			op := fabric.Op{Token: next, Peer: 2, Region: 1, Data: []byte{byte(next)}}
			if broken {
				op.Kind, broken = fabric.Reset, false
			}
			tokens = append(tokens, next)
			require.NoError(t, c.Nodes[1].Post(op))
			next++
			e.Reset()
			c.Nodes[1].Wait(100 * time.Microsecond)
			c.Nodes[1].Poll(&e)
			for _, done := range e.Completions {
				require.Equal(t, tokens[seen], done.Token, "seed %d", seed)
				seen++
				if broken = done.Status != fabric.OK; broken {
					continue
				}
				if done.Kind == fabric.Write {
					sure = done.Token
				}
			}
			var b [1]byte
			m.Load(0, b[:])
			require.GreaterOrEqual(t, b[0], byte(sure), "seed %d: a write with OK is gone", seed)
			if uint64(b[0]) > sure && broken {
				landed++
			}
		}
		n.Heal()
		n.Run(n.Now() + time.Second)
		e.Reset()
		c.Nodes[1].Poll(&e)
		require.Len(t, tokens, int(seen)+len(e.Completions), "seed %d: each operation has one completion", seed)
		s := n.Stats()
		reached.Lost += s.Lost
		reached.LostReplies += s.LostReplies
		reached.LandedLate += s.LandedLate
	}
	require.Positive(t, landed, "no write landed although its completion failed")
	require.Positive(t, reached.Lost)
	require.Positive(t, reached.LostReplies)
	require.Positive(t, reached.LandedLate)
}

// TestCrash: a node stops, and its memory is lost. A prefix of its posted operations lands, and no operation
// lands after its successor has started.
func TestCrash(t *testing.T) {
	some, all, halved := 0, 0, 0
	for seed := range uint64(200) {
		n, c := cluster(rough(seed))
		m, err := c.Nodes[2].Register(1, 800)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[2].Grant(1, 1, fabric.Writable))
		for i := range 100 {
			require.NoError(t, c.Nodes[1].Post(fabric.Op{Token: uint64(i), Peer: 2, Region: 1, At: 8 * i, Data: []byte{1}}))
		}
		n.Crash(1)
		require.Error(t, c.Nodes[1].Post(fabric.Op{Peer: 2, Region: 1, Data: []byte{1}}))
		if seed%4 == 0 {
			n.Node(1)
		}
		n.Run(time.Second)
		count := 0
		for i := range 100 {
			var b [1]byte
			m.Load(8*i, b[:])
			if b[0] == 1 {
				require.Equal(t, i, count, "seed %d: a write landed without its predecessor", seed)
				count++
			}
		}
		switch {
		case seed%4 == 0:
			require.Zero(t, count, "seed %d: writes of a stopped node landed behind its restart", seed)
		case count == 0:
			halved++
		case count == 100:
			all++
		default:
			some++
		}
	}
	require.Positive(t, some, "%d %d %d", some, all, halved)
}

// After a restart the memory of the node is gone, and the queues of other nodes to it break.
func TestRestart(t *testing.T) {
	n, c := cluster(Default())
	do := func(op fabric.Op) fabric.Completion {
		require.NoError(t, c.Nodes[1].Post(op))
		var e fabric.Events
		for len(e.Completions) == 0 {
			c.Nodes[1].Wait(time.Second)
			c.Nodes[1].Poll(&e)
		}
		return e.Completions[0]
	}
	_, err := c.Nodes[2].Register(1, 8)
	require.NoError(t, err)
	require.NoError(t, c.Nodes[2].Grant(1, 1, fabric.Writable))
	require.Equal(t, uint64(1), do(fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 1}).Incarnation)
	n.Crash(2)
	require.Equal(t, fabric.Lost, do(fabric.Op{Peer: 2, Region: 1, Data: []byte{1}}).Status)
	c.Nodes[2] = n.Node(2)
	require.Equal(t, fabric.Flushed, do(fabric.Op{Peer: 2, Region: 1, Data: []byte{1}}).Status)
	require.Equal(t, uint64(2), do(fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 1}).Incarnation)
	require.Equal(t, fabric.Denied, do(fabric.Op{Peer: 2, Region: 1, Data: []byte{1}}).Status)
}

// Two runs with the same seed are equal.
func TestSameSeedSameRun(t *testing.T) {
	run := func() (Stats, time.Duration) {
		n, c := cluster(rough(3))
		_, err := c.Nodes[2].Register(1, 64)
		require.NoError(t, err)
		require.NoError(t, c.Nodes[2].Grant(1, 1, fabric.Writable))
		for range 100 {
			require.NoError(t, c.Nodes[1].Post(fabric.Op{Peer: 2, Region: 1, Data: make([]byte, 64)}))
			c.Nodes[1].Wait(time.Millisecond)
			require.NoError(t, c.Nodes[1].Post(fabric.Op{Kind: fabric.Reset, Peer: 2, Region: 1}))
			c.Nodes[1].Wait(time.Millisecond)
		}
		return n.Stats(), n.Now()
	}
	s1, t1 := run()
	s2, t2 := run()
	require.Equal(t, s1, s2)
	require.Equal(t, t1, t2)
	require.Positive(t, s1.Torn)
}

// Next names the time of the next event, so that an owner can drive a network beside other events.
func TestNext(t *testing.T) {
	n := New(Default())
	_, ok := n.Next()
	require.False(t, ok)
	n.Schedule(3*time.Millisecond, func() {})
	at, ok := n.Next()
	require.True(t, ok)
	require.Equal(t, 3*time.Millisecond, at)
	n.Run(2 * time.Millisecond)
	at, _ = n.Next()
	require.Equal(t, 3*time.Millisecond, at)
	require.True(t, n.Step())
	_, ok = n.Next()
	require.False(t, ok)
}
