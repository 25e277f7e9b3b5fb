package sim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// TestTreePower: with durability `os`, all replicas of one partition lose power together, again and again.
// Updates of that partition may be lost, although they were answered. But partitions never disagree: in the
// end all names, inodes, links, posts and votes fit, as after a run without faults.
func TestTreePower(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error { return treeRun(seed, treePower(seed)).judgePower(reach) })
	reach.require(t, wentDark, darkLost, unseenAgain, sessionExpired)
}

const (
	wentDark    treeMark = "a partition lost power"
	darkLost    treeMark = "a replica lost records that were written and not synced"
	unseenAgain treeMark = "a client had seen what a partition has lost"
)

// treePower has few other faults in half of the seeds, so that much work is in progress at the loss of power.
func treePower(seed uint64) treeSetup {
	return treeSetup{power: true, lease: 5 * time.Second, change: func(cfg *Config) {
		f := &cfg.Faults
		if seed%2 == 0 {
			*f = Faults{Longest: f.Longest, Leads: f.Leads, Reset: 1}
		}
		f.Every, f.Power = 250*time.Millisecond, 8
	}}
}

// storeSnapshot is a state of a store, with its position in the order of the partition.
type storeSnapshot struct {
	at    multicast.Timestamp
	state *kv.View
}

// Commit implements replica.Keys.
func (k *observedKeys) Commit(sync bool) error {
	err := k.lossyKeys.Commit(sync)
	if err != nil || !k.node.run.power || !sync && k.rng.IntN(4) != 0 {
		return err
	}
	return k.snap(sync)
}

// Replace implements replica.Keys.
func (k *observedKeys) Replace(fill kv.Fill) error {
	err := k.lossyKeys.Replace(fill)
	if err != nil || !k.node.run.power {
		return err
	}
	return k.snap(true)
}

// snap keeps the committed state for losses of power.
func (k *observedKeys) snap(sync bool) error {
	own, _, err := replica.Positions(k.Store)
	if sync {
		k.disk.snaps = nil
		if net := k.node.run.net; net != nil {
			net.SyncStore(k.node.self)
		}
	}
	k.disk.snaps = append(k.disk.snaps, storeSnapshot{own.Final, k.disk.committed})
	return err
}

// lostTries is the number of tries without an answer, after all is healed, until a client takes an inode for
// lost: its number was promised to the partition that named it, and the loss of power removed the name before
// the inode was made.
const lostTries = 12

// isLost counts the tries of a request without an answer.
func (c *treeClient) isLost(tries *int) bool {
	if c.run.power && c.run.net.healed {
		*tries++
	}
	return *tries > lostTries
}

// code returns the code of an answer. After a loss of power, a file may have the inode number of a former
// directory.
func (c *treeClient) code(m *meta.Result) posix.Code {
	if c.run.power && m.Code == posix.ENOTDIR {
		return posix.ESTALE
	}
	return m.Code
}

// Format numbers of packages order and primcast, to find the end of a log.
const (
	sectionOwn  = 1
	recordEntry = 1
	recordState = 6
)

// LogEnds gives the end of the log with each record.
func (n *treeNode) LogEnds(records [][]byte) []LogEnd {
	ends := make([]LogEnd, len(records))
	for i, record := range records {
		r := varint.NewReader(record)
		if section, kind := r.Uint8(), r.Uint8(); section == sectionOwn && kind == recordEntry {
			n.logEnd.Length, n.logEnd.Last = r.Uint64(), multicast.Timestamp(r.Uint64())
		} else if section == sectionOwn && kind == recordState {
			n.logEnd = LogEnd{Epoch: r.Uint64(), Leader: r.Uint64()}
			_, n.logEnd.Length = r.Uint64(), r.Uint64()
		}
		ends[i] = n.logEnd
	}
	if len(records) > 0 {
		n.logEnd = logEnd(n.local) // a checkpoint record does not contain it
		ends[len(ends)-1] = n.logEnd
	}
	return ends
}

func logEnd(own order.Core) LogEnd {
	core, ok := own.(*primcast.Core)
	if !ok {
		return LogEnd{} // its log loses nothing
	}
	s := core.Stats()
	return LogEnd{Epoch: s.Current.Number, Leader: uint64(s.Current.Leader), Length: s.Length, Last: s.Last}
}

// dark cuts the stores of a group back to states that all logs of the group can contain.
func (r *tree) dark(members []multicast.ProcessID, end LogEnd) {
	r.digests.forget(members[0], r)
	for _, id := range members {
		disk := r.disks[id]
		n := len(disk.snaps) - 1
		for n > 0 && disk.snaps[n].at > end.Last {
			n--
		}
		disk.snaps = disk.snaps[:n+1]
		disk.saved, disk.committed = disk.snaps[n].state, disk.snaps[n].state
		if err := disk.load(disk.saved); err != nil {
			r.fail("replica %d: %w", id, err)
		}
	}
}

// judgePower compares the partitions with each other. It ignores the answers of clients.
func (r *tree) judgePower(reach treeReach) error {
	if r.net == nil || r.net.Err() != nil || len(r.errs) > 0 {
		return errors.Join(append(r.errs, r.netErr())...)
	}
	for _, c := range r.clients {
		if !c.finished {
			return fmt.Errorf("client %d still waits at the end", c.id)
		}
	}
	reach.add(r.reach)
	reach[wentDark] += r.net.Marks()[Dark]
	reach[darkLost] += r.net.Marks()[DarkLost]
	return r.alike()
}
