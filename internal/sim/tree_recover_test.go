package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// TestTreeRecover: the cluster stops in the middle of its work, under all faults. Partitions lose the
// majority of their replicas for ever. The states that are left are recovered: they make one sound tree, a
// partition that keeps its majority loses nothing that was answered, and each lost name is reported. The new
// cluster then works under all faults, and its partitions agree in the end.
func TestTreeRecover(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		r := treeHalted(seed)
		states, err := r.recover(reach)
		if err != nil {
			return err
		}
		return treeRun(seed+1, treeSetup{begin: states, power: true, change: func(cfg *Config) { cfg.Faults.Power = 0 }}).judgePower(reach)
	})
	reach.require(t, nothingShort, oneShort, severalShort, settledCommit, settledAbort, reconciled, executedTail, bestWasBehind)
}

// TestTreeMemoryRecover is TestTreeRecover with TRAM.
func TestTreeMemoryRecover(t *testing.T) {
	reach := treeReach{}
	seeds(t, 20, func(seed uint64) error {
		setup := haltedSetup(seed)
		setup.memory = &treeMemory{}
		r := treeRun(seed, setup)
		states, err := r.recover(reach)
		if err != nil {
			return err
		}
		again := treeSetup{begin: states, memory: &treeMemory{}, power: true, change: func(cfg *Config) { cfg.Faults.Power = 0 }}
		return treeRun(seed+1, again).judgePower(reach)
	})
	reach.require(t, nothingShort, oneShort, severalShort, reconciled, executedTail, bestWasBehind)
}

const (
	nothingShort  treeMark = "all partitions keep their majorities"
	oneShort      treeMark = "one partition has lost its majority"
	severalShort  treeMark = "several partitions have lost their majorities"
	settledCommit treeMark = "an open command was committed by the recovery"
	settledAbort  treeMark = "an open command was aborted by the recovery"
	reconciled    treeMark = "the tree was changed to be sound"
	executedTail  treeMark = "a log had entries that the store lacked"
	bestWasBehind treeMark = "the survivor had not executed all that was answered"
)

// treeHalted returns a run that ends in the middle of its work: all processes stop.
func treeHalted(seed uint64) *tree { return treeRun(seed, haltedSetup(seed)) }

func haltedSetup(seed uint64) treeSetup {
	rng := rand.New(rand.NewPCG(seed, 77))
	end := time.Second + time.Duration(rng.Int64N(int64(6*time.Second)))
	return treeSetup{halt: end, blocks: seed%3 == 0, change: func(cfg *Config) {
		if seed%2 == 0 { // much work is under way at the end
			cfg.Faults = Faults{Longest: cfg.Faults.Longest, Leads: cfg.Faults.Leads, Every: 250 * time.Millisecond, Reset: 1, Lag: 1, LagMax: cfg.Faults.LagMax}
		}
	}}
}

// pauseSome stops one replica of some partitions for a while before the end: it is behind then.
func (r *tree) pauseSome() {
	for _, g := range r.groups {
		if r.net.percent(60) {
			p := g.members[r.net.Rand().IntN(len(g.members))]
			r.slow = append(r.slow, p)
			longest := []time.Duration{400 * time.Millisecond, 3 * time.Second, r.halt}[r.net.Rand().IntN(3)] // the last is as old as a backup
			longest = min(longest, r.halt-200*time.Millisecond)
			r.net.Schedule(r.halt-r.net.between(0, longest), func() { r.net.processes[p].pausedUntil = r.halt + time.Second })
		}
	}
}

// stopAll runs until the halt, or a little longer until a command of several partitions is open, and stops
// all processes.
func (r *tree) stopAll() {
	r.pauseSome()
	r.net.Run(r.halt)
	for end := r.halt + 500*time.Millisecond; r.net.Now() < end && r.net.Err() == nil && !r.hasOpen(); {
		r.net.Run(r.net.Now() + 2*time.Millisecond)
	}
	for _, id := range r.net.ids {
		if p := r.net.processes[id]; p.up {
			p.stop()
		}
	}
}

// hasOpen reports whether a replica has an undecided command, and another one a command that its coordinator
// has committed and not forgotten.
func (r *tree) hasOpen() bool {
	open, decided := false, false
	for _, p := range r.net.ids {
		n, up := r.net.Node(p).(*treeNode)
		if !up {
			continue
		}
		open = open || len(n.machine.Undecided()) > 0
		for _, value := range n.keys.Scan([]byte{coordinatedKeys}, []byte{coordinatedKeys + 1}) {
			decided = decided || readSeveral(value).phase == phaseCommitted
		}
	}
	return open && decided
}

// preload gives the replicas of a new cluster their first states.
func (r *tree) preload() error {
	for p, state := range r.begin {
		for _, id := range treeGroups[p].Members {
			disk := &stored{keys: kv.NewMemory()}
			err := restore(disk.keys, state)
			if err == nil {
				disk.committed, err = disk.keys.View()
			}
			if err != nil {
				return err
			}
			disk.saved, r.disks[id] = disk.committed, disk
		}
	}
	return nil
}

// survivor is the durable state of a stopped replica.
type survivor struct {
	store   *kv.Store
	replica *replica.Replica
	log     server.RemainingLog
}

// survive opens the disk of a stopped replica.
func (r *tree) survive(p multicast.ProcessID, rng *rand.Rand) (*survivor, error) {
	disk := r.disks[p]
	if err := disk.crash(rng); err != nil {
		return nil, err
	}
	group, index := r.seat(p)
	partition := group.partition()
	machine, err := meta.New(disk.keys, r.treeMeta(partition))
	if err != nil {
		return nil, err
	}
	local, between, err := r.cores(primcast.Config{Self: p}, group, treeGroups, disk.keys, r.net.processes[p].disk.records, false)
	if err != nil {
		return nil, err
	}
	s := &survivor{store: disk.keys, log: server.RemainingLogOf(local)}
	s.replica, err = replica.New(replica.Config{
		Partition: partition, Groups: treeGroups, Self: p, Index: index, Incarnation: 1 << 20, Sealer: vectorKeys, Lease: time.Hour,
		DigestPeriod: treeDigestPeriod,
	}, local, between, disk.keys, machine)
	return s, err
}

// salvage takes the best of some replicas of a partition, and executes all that its log holds.
func (r *tree) salvage(g *treeGroup, left []multicast.ProcessID, decisions map[multicast.MessageID]cross.Decision, reach treeReach) (best *survivor, short bool, err error) {
	rng := rand.New(rand.NewPCG(uint64(left[0]), 5))
	var logs []*server.RemainingLog
	for _, p := range left {
		s, err := r.survive(p, rng)
		if err != nil {
			return nil, false, err
		}
		logs = append(logs, &s.log)
		replica.Decisions(s.log.Held(), decisions)
		if best == nil || best.log.Compare(&s.log) < 0 {
			best = s
		}
	}
	before := best.replica.Vector().Of(g.partition()).Count
	if err := best.replica.Finish(best.log.Complete(logs)); err != nil {
		return nil, false, err
	}
	if best.replica.Vector().Of(g.partition()).Count > before {
		reach[executedTail]++
	}
	return best, !server.Remember(logs, func(p multicast.ProcessID) bool { return slices.Contains(left, p) }), nil
}

// recover recovers the states of the stopped cluster. It returns the states of the new one.
func (r *tree) recover(reach treeReach) (states [][]byte, err error) {
	defer func() {
		if broken, is := recover().(invariant.Violation); is {
			err = broken
		}
	}()
	if r.net == nil || r.net.Err() != nil || len(r.errs) > 0 {
		return nil, errors.Join(append(r.errs, r.netErr())...)
	}
	var stores []replica.Keys
	var all []*kv.Store
	var short []bool
	decisions := map[multicast.MessageID]cross.Decision{}
	for _, g := range r.groups {
		left := slices.Clone(g.members)
		if r.net.percent(40) {
			left = left[r.net.Rand().IntN(3):][:1]
			for _, slow := range r.slow { // which makes a loss likely
				if slices.Contains(g.members, slow) {
					left = []multicast.ProcessID{slow}
				}
			}
		}
		s, isShort, err := r.salvage(g, left, decisions, reach)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", g.partition(), err)
		}
		if err := r.hasAnswered(g.partition(), s.replica.Vector().Of(g.partition()).Count, isShort, reach); err != nil {
			return nil, err
		}
		stores, all, short = append(stores, s.store), append(all, s.store), append(short, isShort)
	}
	before := namesOf(all)
	done, err := replica.Recover(stores, short, decisions, 7)
	if err != nil {
		return nil, fmt.Errorf("short %v: %w", short, err)
	}
	if err := judgeRecovered(before, namesOf(all), short, &done, reach); err != nil {
		return nil, err
	}
	for _, store := range all {
		var b bytes.Buffer
		if err := meta.Snapshot(store, &b); err != nil {
			return nil, err
		}
		states = append(states, b.Bytes())
	}
	return states, nil
}

// hasAnswered checks that a partition that keeps its majority has all updates that were answered.
func (r *tree) hasAnswered(partition uint16, count uint64, short bool, reach treeReach) error {
	for _, u := range r.history.changes {
		if u.answered == noAnswer || u.asked != partition || u.dest != nil || u.count <= count {
			continue
		}
		if !short {
			return fmt.Errorf("%v: it was answered, and the recovered partition ends with entry %d", u, count)
		}
		reach[bestWasBehind]++
	}
	return nil
}

// namesOf gives all names of all partitions.
func namesOf(stores []*kv.Store) map[string]bool {
	names := map[string]bool{}
	for _, s := range stores {
		for key := range s.Scan([]byte{direntKeys}, []byte{direntKeys + 1}) {
			names[string(key[1:])] = true
		}
	}
	return names
}

// direntKeys is the first byte of the keys of names, of package meta.
const direntKeys = 3

// judgeRecovered checks the report of a recovery: a name disappears only by a reported change, or by a
// reported command.
func judgeRecovered(before, after map[string]bool, short []bool, done *replica.Recovered, reach treeReach) error {
	shorts := 0
	for _, is := range short {
		if is {
			shorts++
		}
	}
	reach[[]treeMark{nothingShort, oneShort, severalShort, severalShort}[shorts]]++
	var report strings.Builder
	for _, c := range done.Commands {
		if c.Outcome == cross.Committed {
			reach[settledCommit]++
		} else {
			reach[settledAbort]++
		}
		if shorts == 0 && (len(c.Lacking) > 0 || c.Outcome == cross.Unknown) {
			return fmt.Errorf("no partition has lost its majority, and this command cannot be completed: %+v", c)
		}
		fmt.Fprintln(&report, c.What)
	}
	for _, c := range done.Changes {
		reach[reconciled]++
		fmt.Fprintln(&report, c)
	}
	if shorts == 0 && len(done.Changes) > 0 {
		return fmt.Errorf("no partition has lost its majority, and the tree was changed: %q", done.Changes)
	}
	for name := range before {
		if !after[name] && !strings.Contains(report.String(), "/"+name[8:]) {
			return fmt.Errorf("name %q of directory %x is gone, and the recovery does not report it: %s", name[8:], name[:8], report.String())
		}
	}
	return nil
}
