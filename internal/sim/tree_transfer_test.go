package sim

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestTreeTransfers: what cores keep for replicas that are away is little, so that these must take over the state of another
// one; and clients are away for longer than the lease of their sessions.
func TestTreeTransfers(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error { return treeRun(seed, treeTransfers(seed)).judge(reach) })
	reach.require(t, tookOver, notTaken, stoppedAdopting, stoppedEnding, sessionExpired, happenedUnanswered, neverHappened, renamedAcross, madeAlone, decidedSessionless)
}

const (
	tookOver           treeMark = "a replica took over the state of another"
	notTaken           treeMark = "a state did not do, and another was taken"
	stoppedAdopting    treeMark = "a replica stopped after it had taken over the store, and before the log"
	stoppedEnding      treeMark = "a replica stopped after it had taken over store and log, before it had noted that"
	sessionExpired     treeMark = "a session expired, and its client went on with a new one"
	happenedUnanswered treeMark = "an update that was in doubt when its session expired had happened"
	neverHappened      treeMark = "an update that was in doubt when its session expired never happened"
	decidedSessionless treeMark = "a command of several partitions was decided after its session had expired"
)

// treeTransfers draws how little is kept and how long leases are.
func treeTransfers(seed uint64) treeSetup {
	rng := rand.New(rand.NewPCG(seed, 12))
	return treeSetup{
		linear: seed%3 == 0, retain: 1 << (9 + rng.IntN(5)), lease: time.Duration(2000+rng.IntN(5000)) * time.Millisecond, rage: 20 * time.Second,
		change: longFaults,
	}
}

// longFaults has faults that last for longer than stores take to be synced, so that others forget what who is away needs.
func longFaults(cfg *Config) {
	f := &cfg.Faults
	f.Every, f.Longest = 700*time.Millisecond, 5*time.Second
	f.Pause, f.SlowDisk, f.CrashAll, f.Crash, f.Chase = 1, 0, 0, 5, 1
}

// transferPause is about how long a replica waits until it asks for a state again.
const transferPause = 500 * time.Millisecond

// catchUpLater has a replica that is behind take over the state of another one, as internal/server does. Until then it goes on
// ordering: the others may need what only it has.
func (n *treeNode) catchUpLater() {
	n.afterwards(transferPause, n.fetch)
}

// afterwards does something within a time, if the process has not stopped by then.
func (n *treeNode) afterwards(most time.Duration, do func()) {
	net := n.run.net
	net.Schedule(net.Now()+net.between(0, most), func() {
		if net.Node(n.self) == n {
			do()
		}
	})
}

// fetch takes the state of another replica, if one can give it, and has it arrive.
func (n *treeNode) fetch() {
	group, _ := n.run.seat(n.self)
	members := slices.Clone(group.members)
	n.run.net.Rand().Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	for _, member := range members {
		donor, ok := n.run.net.Node(member).(*treeNode)
		if !ok || donor == n || n.run.net.processes[member].disk.busy() {
			continue
		}
		var state bytes.Buffer
		if err := replica.Export(&state, donor.replica.CoreStates(), donor.keys); err != nil {
			n.run.fail("replica %d gives its state: %w", member, err)
			return
		}
		n.afterwards(transferPause, func() { n.adopt(&state) })
		return
	}
	n.catchUpLater()
}

// adopt puts a state in the place of the own one and starts anew, maybe later.
func (n *treeNode) adopt(state *bytes.Buffer) {
	n.keys.adopting = true
	err := n.replica.Adopt(state)
	n.keys.adopting = false
	switch {
	case errors.Is(err, replica.ErrNotNewer):
		n.run.reach[notTaken]++
		n.catchUpLater()
		return
	case err != nil:
		n.run.fail("replica %d takes over a state: %w", n.self, err)
		return
	}
	n.run.reach[tookOver]++
	p := n.run.net.processes[n.self]
	p.stop()
	if n.run.net.percent(60) {
		p.restart()
		return
	}
	n.run.reach[stoppedAdopting]++
	n.run.net.Schedule(n.run.net.Now()+n.run.net.between(0, time.Second), p.restart)
}

// endAdoption puts the log in its place that belongs to a store which was taken over, and gives the records from which a
// process that starts goes on. It may stop again in between.
func (r *tree) endAdoption(self multicast.ProcessID, disk *stored, rng *rand.Rand, records [][]byte) ([][]byte, error) {
	for {
		record := slices.Clone(replica.Adopted(disk.keys))
		if record == nil {
			return records, nil
		}
		records = [][]byte{record}
		r.net.processes[self].disk.records = records
		if rng.IntN(4) > 0 {
			return records, replica.EndAdoption(lossyKeys{Store: disk.keys, disk: disk, rng: rng})
		}
		r.reach[stoppedEnding]++
		if err := disk.crash(rng); err != nil {
			return nil, err
		}
	}
}
