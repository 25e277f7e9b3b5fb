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

// TestTreeTransfers: cores keep little for absent replicas, so these must take over the state of another one;
// and clients are silent for longer than the lease of their sessions.
func TestTreeTransfers(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error { return treeRun(seed, treeTransfers(seed)).judge(reach) })
	reach.require(t, tookOver, notTaken, tookPart, stoppedAdopting, stoppedEnding, sessionExpired, happenedUnanswered, neverHappened, renamedAcross, madeAlone)
}

const (
	tookOver           treeMark = "a replica took over the state of another"
	notTaken           treeMark = "a state did not do"
	tookPart           treeMark = "a replica that was behind took part again for a while, as no state did"
	stoppedAdopting    treeMark = "a replica stopped after it had taken over the store, and before the log"
	stoppedEnding      treeMark = "a replica stopped after it had taken over store and log, before it had noted that"
	sessionExpired     treeMark = "a session expired, and its client went on with a new one"
	happenedUnanswered treeMark = "an update that was in doubt when its session expired had happened"
	neverHappened      treeMark = "an update that was in doubt when its session expired never happened"
)

// treeTransfers draws the bytes that cores retain, and the length of leases.
func treeTransfers(seed uint64) treeSetup {
	rng := rand.New(rand.NewPCG(seed, 12))
	return treeSetup{
		linear: seed%3 == 0, retain: 1 << (9 + rng.IntN(5)), lease: time.Duration(2000+rng.IntN(5000)) * time.Millisecond, rage: 20 * time.Second,
		change: longFaults,
	}
}

// longFaults has faults that last longer than the sync of stores, so that others forget messages that absent
// replicas need.
func longFaults(cfg *Config) {
	f := &cfg.Faults
	f.Every, f.Longest = 700*time.Millisecond, 5*time.Second
	f.Pause, f.SlowDisk, f.CrashAll, f.Crash, f.Chase = 1, 0, 0, 5, 1
}

// transferPause is the maximal time to fetch a state, or to learn that none is available.
const transferPause = 500 * time.Millisecond

// catchUp makes a replica that is behind take over the state of another one, as in internal/server. Meanwhile
// the replica stands still: no state is valid for a replica that continues to acknowledge. But the others may
// need a message that only this replica has, and then none of their states is valid for it: so it takes part
// for a while, each time longer, before it asks them again.
func (n *treeNode) catchUp() {
	group, _ := n.run.seat(n.self)
	n.donors = slices.DeleteFunc(slices.Clone(group.members), func(p multicast.ProcessID) bool { return p == n.self })
	n.run.net.Rand().Shuffle(len(n.donors), func(i, j int) { n.donors[i], n.donors[j] = n.donors[j], n.donors[i] })
	n.fetch()
}

// after calls do later, if the process has not stopped by then.
func (n *treeNode) after(wait time.Duration, do func()) {
	net := n.run.net
	net.Schedule(net.Now()+wait, func() {
		if net.Node(n.self) == n {
			do()
		}
	})
}

// fetch takes the state of the next donor, which arrives after a while.
func (n *treeNode) fetch() {
	net := n.run.net
	if len(n.donors) == 0 {
		n.run.reach[tookPart]++
		n.donors, n.patience = nil, min(max(time.Second, 2*n.patience), 30*time.Second)
		n.after(n.patience, n.catchUp)
		return
	}
	p, q := net.processes[n.self], net.processes[n.donors[0]]
	n.donors = n.donors[1:]
	took := net.between(0, transferPause)
	p.pausedUntil = max(p.pausedUntil, net.Now()+took+1)
	donor, up := q.node.(*treeNode)
	if !up || p.links[q.id].cut > 0 || q.links[p.id].cut > 0 || donor.donors != nil || q.disk.busy() {
		n.after(took, n.fetch)
		return
	}
	var state bytes.Buffer
	if err := errors.Join(donor.keys.Commit(false), replica.Export(&state, donor.Replica.CoreStates(), donor.keys)); err != nil {
		n.run.fail("replica %d gives its state: %w", donor.self, err)
	}
	n.after(took, func() { n.adopt(&state) })
}

// adopt replaces the own state by a fetched one and restarts the process, maybe later.
func (n *treeNode) adopt(state *bytes.Buffer) {
	err := n.Replica.Adopt(state)
	switch {
	case errors.Is(err, replica.ErrNotNewer):
		n.run.reach[notTaken]++
		n.fetch()
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

// endAdoption installs the log record that belongs to an adopted store, and gives the records for the start
// of the process. It may stop again in between.
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
