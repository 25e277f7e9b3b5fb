package whitebox_test

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/whitebox"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// protocol delivers after three steps at leaders and after four at followers if one message is under way at a
// time, and with many after five and six (T 4.6.2).
var protocol = &baselinetest.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		return whitebox.New(whitebox.Config{Self: self, Groups: groups})
	},
	Stats: func(core multicast.Core) baselinetest.Stats { return baselinetest.Stats(core.(*whitebox.Core).Stats()) },
	Sizes: []int{1, 3, 5},
	Steps: []baselinetest.Steps{
		{CollisionFree: 4, FailureFree: 6},
		{At: baselinetest.Leaders, CollisionFree: 3, FailureFree: 5},
	},
	Loop: baselinetest.Limits{Round: time.Millisecond, Allocations: 30, Kept: 100},
}

func TestProtocol(t *testing.T)      { baselinetest.Test(t, protocol) }
func BenchmarkProtocol(b *testing.B) { baselinetest.Benchmark(b, protocol) }
