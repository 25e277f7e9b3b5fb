package fastcast_test

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/fastcast"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// protocol has the steps of the package comment, at leaders; the thesis allows 4 and 8.
var protocol = &baselinetest.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		return fastcast.New(paxos.Config{Self: self, Groups: groups})
	},
	Stats: func(core multicast.Core) baselinetest.Stats { return baselinetest.Stats(core.(*fastcast.Core).Stats()) },
	Sizes: []int{1, 3, 5},
	Steps: []baselinetest.Steps{{CollisionFree: 4, FailureFree: 6}},
	Loop:  baselinetest.Limits{Round: time.Millisecond, Allocations: 40, Kept: 200},
}

// late takes no longer than protocol with one message at a time. With many it takes ten steps, four more than
// protocol, and two more than the thesis allows.
var late = &baselinetest.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		return fastcast.NewLate(paxos.Config{Self: self, Groups: groups})
	},
	Stats: protocol.Stats,
	Sizes: protocol.Sizes,
	Steps: []baselinetest.Steps{{CollisionFree: 4, FailureFree: 10}},
	Loop:  protocol.Loop,
}

func TestLate(t *testing.T) { baselinetest.Test(t, late) }

func TestProtocol(t *testing.T)      { baselinetest.Test(t, protocol) }
func TestOnPaxos(t *testing.T)       { baselinetest.TestOnPaxos(t, protocol, "fastcast") }
func FuzzStep(f *testing.F)          { baselinetest.FuzzLoop(f, protocol) }
func BenchmarkProtocol(b *testing.B) { baselinetest.Benchmark(b, protocol) }

// TestFollowersAreFaster: in groups of three a follower needs a step less than its leader.
func TestFollowersAreFaster(t *testing.T) {
	for seed := range uint64(50) {
		alone := baselinetest.Alone(t, protocol, seed, 3)
		baselinetest.RequireSteps(t, seed, baselinetest.Followers(alone), 3, 3)
	}
}
