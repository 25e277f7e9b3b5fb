// Package baselinetest is the test suite of the baseline protocols (bench/baseline/...): the tests that each
// of them must pass in the simulator, in a loop in memory and with hostile frames. A protocol's own tests
// call Test and Benchmark, and add tests of the properties that only this protocol has.
//
// The protocols are for benchmarks and record nothing. The faults of the suite therefore delay everything and
// lose nothing; that crashes are not survived is tested, too, so that the suite is known to see.
package baselinetest

import (
	"math/rand/v2"
	"testing"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// New makes a process of a protocol.
type New func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error)

// Protocol describes a protocol for the suite.
type Protocol struct {
	New New
	// Vary, if set, draws a configuration for a simulation in which senders take part. Otherwise New is used.
	Vary func(rng *rand.Rand, senders []multicast.ProcessID) New
	// Stats gives the counts of a process.
	Stats func(core multicast.Core) Stats
	// Sizes are the numbers of members that groups are drawn with.
	Sizes []int
	// NotGenuine says that processes outside a message's destinations take part (T 4.1).
	NotGenuine bool
	// NoTimestamps says that final timestamps are places in the order of a group, and differ between groups.
	NoTimestamps bool
	// Steps bound the latency; nil: the protocol's own test does.
	Steps []Steps
	Loop  Limits
}

// Stats are the counts of a process. Its fields are those of paxos.Stats.
type Stats struct {
	Malformed uint64 // frames dropped from a place on
	Refused   uint64 // proposals that cannot be multicast
	Repeated  uint64 // proposals with a number that was used before
	Kept      int    // messages that some destination may not have delivered
	Pending   int    // of them, those not delivered here
}

// Steps bound the communication steps from a multicast to a delivery. Each bound must also be reached by some
// run.
type Steps struct {
	At            func(h *check.History) *check.History // the part of a run that the bounds are of; nil: all of it
	CollisionFree int                                   // with one message at a time
	FailureFree   int                                   // with many
}

// Test runs the whole suite.
func Test(t *testing.T, p *Protocol) {
	t.Run("Simulated", p.testSimulated)
	t.Run("CrashesAreNotSurvived", p.testCrashes)
	t.Run("Allocations", p.testAllocations)
	t.Run("MemoryStaysFlat", p.testMemory)
	if len(p.Steps) > 0 {
		t.Run("Steps", p.testSteps)
		t.Run("StepsAreTight", p.testStepsAreTight)
	}
}
