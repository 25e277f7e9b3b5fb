package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestTree: one tree over three partitions of three replicas, clients that change it in the same few places,
// and all faults. The answers to clients must fit one order of all updates (tree_judge_test.go).
func TestTree(t *testing.T) {
	reach := treeReach{}
	seeds(t, 100, func(seed uint64) error { return treeRun(seed, treeSetup{}).judge(reach) })
	reach.require(t, treeMarks...)
}

// TestTreeLinearizable: the same, and each request sees the state of all earlier answers to any client.
func TestTreeLinearizable(t *testing.T) {
	reach := treeReach{}
	seeds(t, 40, func(seed uint64) error { return treeRun(seed, treeSetup{linear: true}).judge(reach) })
	reach.require(t, treeMarks...)
}

// TestTreeShards: two of the partitions are the shards of a region, over which new directories spread.
func TestTreeShards(t *testing.T) {
	reach := treeReach{}
	seeds(t, 40, func(seed uint64) error { return treeRun(seed, treeSetup{shards: true}).judge(reach) })
	reach.require(t, treeMarks...)
}

// TestTreeForgets: disks are slow, and replicas stop between what leaves early and their records.
func TestTreeForgets(t *testing.T) {
	reach := treeReach{}
	forgetful := func(cfg *Config) { cfg.DiskMax, cfg.Faults.ForgetPercent = 20*time.Millisecond, 5 }
	seeds(t, 40, func(seed uint64) error {
		r := treeRun(seed, treeSetup{change: forgetful})
		if r.net != nil {
			reach[forgotProposals] += r.net.Marks()[Forgotten]
		}
		return r.judge(reach)
	})
	reach.require(t, forgotProposals, renamedAcross, abortedThere, movedAway)
}

// treeMark names a situation that runs must get to.
type treeMark string

const (
	renamedAcross   treeMark = "a rename over partitions was committed"
	waitedYounger   treeMark = "a command of several partitions waited for a younger one"
	refusedOlder    treeMark = "a command of several partitions was refused because of an older one"
	abortedThere    treeMark = "a command of several partitions was aborted"
	askedAgain      treeMark = "a replica that had crashed asked for the votes of another partition"
	relayedByOther  treeMark = "a replica that did not lead relayed what the order between partitions delivered"
	movedAway       treeMark = "an inode moved away from its home"
	movedHome       treeMark = "an inode moved back to its home"
	reapedAway      treeMark = "an inode without a name was reaped away from its home"
	heldUnlinked    treeMark = "a file without a name was read by who held it open"
	madeAlone       treeMark = "an inode was made in another partition than its directory"
	linkedAcross    treeMark = "a link over partitions was committed"
	loopRefused     treeMark = "a rename of a directory below itself was refused over partitions"
	checkpoints     treeMark = "a checkpoint of both orders was written"
	dirAcross       treeMark = "a directory got another parent over partitions"
	forgotProposals treeMark = "a replica forgot records of which others had heard early"
	withdrawnThere  treeMark = "a call for an update was withdrawn from a replica"
)

var treeMarks = []treeMark{
	renamedAcross, waitedYounger, refusedOlder, abortedThere, askedAgain, relayedByOther, movedAway, movedHome, reapedAway, heldUnlinked,
	madeAlone, linkedAcross, loopRefused, dirAcross, checkpoints, withdrawnThere, digestsCompared,
}

// treeReach counts the marks.
type treeReach map[treeMark]int

func (a treeReach) add(b treeReach) {
	for mark, count := range b {
		a[mark] += count
	}
}

// require demands that the seeds of a test have reached each mark.
func (a treeReach) require(t *testing.T, marks ...treeMark) {
	t.Helper()
	for _, mark := range marks {
		t.Logf("%6d times %s", a[mark], mark)
	}
	if *oneSeed != 0 || *seedCount != 0 {
		return
	}
	for _, mark := range marks {
		require.Positive(t, a[mark], "no seed got to: %s", mark)
	}
}

// treeGroups: partition 0 is global, with a replica in each region; 1 and 2 are in one region each.
var treeGroups = []multicast.Group{
	{ID: 0, Members: []multicast.ProcessID{1, 2, 3}},
	{ID: 1, Members: []multicast.ProcessID{4, 5, 6}},
	{ID: 2, Members: []multicast.ProcessID{7, 8, 9}},
}

var treeRegions = [][]multicast.ProcessID{{1, 4, 5, 6}, {2, 7, 8, 9}, {3}}

// treeConfig has short links in a region, and longer ones between regions.
func treeConfig(seed uint64) Config {
	cfg := Default()
	cfg.Seed, cfg.Trace = seed, tracer()
	cfg.Groups, cfg.Regions = treeGroups, treeRegions
	cfg.Jitter, cfg.DiskMax, cfg.Skew, cfg.Pipelined = 2*time.Millisecond, 3*time.Millisecond, time.Second, seed%2 == 0
	cfg.Faults = Faults{
		Every: 250 * time.Millisecond, Longest: 300 * time.Millisecond,
		Pause: 2, Stall: 2, Reset: 1, SlowDisk: 1, Jump: 1, Crash: 3, CrashAll: 1, Cut: 2, Lag: 1, Chase: 2, Move: 1, LagMax: time.Second,
		LossPercent: 5, RepeatPercent: 5, WithdrawPercent: 50,
	}
	return cfg
}

// spreadLatencies makes links between regions longer.
func spreadLatencies(n *Network) {
	region := map[multicast.ProcessID]int{}
	for i, members := range treeRegions {
		for _, p := range members {
			region[p] = i
		}
	}
	for _, id := range n.ids {
		for _, other := range n.ids {
			if region[id] != region[other] {
				n.processes[id].links[other].latency = n.between(10*time.Millisecond, 40*time.Millisecond)
			}
		}
	}
}
