package classic_test

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/classic"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// protocol has the steps of the package comment; the thesis allows 6 and 12.
var protocol = &baselinetest.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		return classic.New(paxos.Config{Self: self, Groups: groups})
	},
	Stats: func(core multicast.Core) baselinetest.Stats { return baselinetest.Stats(core.(*classic.Core).Stats()) },
	Sizes: []int{1, 3, 5},
	Steps: []baselinetest.Steps{{CollisionFree: 6, FailureFree: 10}},
	Loop:  baselinetest.Limits{Round: time.Millisecond, Allocations: 40, Kept: 200},
}

func TestProtocol(t *testing.T)      { baselinetest.Test(t, protocol) }
func TestOnPaxos(t *testing.T)       { baselinetest.TestOnPaxos(t, protocol, "classic") }
func FuzzStep(f *testing.F)          { baselinetest.FuzzLoop(f, protocol) }
func BenchmarkProtocol(b *testing.B) { baselinetest.Benchmark(b, protocol) }
