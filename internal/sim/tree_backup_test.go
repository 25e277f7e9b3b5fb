package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/replica"
)

// TestTreeBackup: backups are started one after the other, under all faults, while clients rename over
// partitions. All replicas of a partition save the same bytes. The states of all partitions are a consistent
// cut: none contains an effect of an update that another one lacks, open commands end alike, and the restored
// tree is sound.
func TestTreeBackup(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error { return treeRun(seed, treeSetup{backups: 40}).judgeBackups(reach) })
	reach.require(t, savedAll, savedByCarrier, concludedOpen, abortedOpen, postsOpen, renamedAcross, madeAlone)
}

const (
	savedAll       treeMark = "a backup has the states of all partitions"
	savedByCarrier treeMark = "a partition saved its state before it was asked to"
	concludedOpen  treeMark = "a command that a backup left open was committed by the restore"
	abortedOpen    treeMark = "a command that a backup left open was aborted by the restore"
	postsOpen      treeMark = "a post was under way in a backup"
)

// treeCuts are the states that replicas have saved, by the number of the backup and by partition.
type treeCuts map[uint64]map[uint16][]byte

// startBackups starts backups at random times, each at one partition first, and at the others later.
func (r *tree) startBackups() {
	for range r.backups {
		at := r.net.between(100*time.Millisecond, treeFaults)
		order := r.net.Rand().Perm(len(r.groups))
		gap := r.net.between(0, 200*time.Millisecond)
		r.net.Schedule(at, func() {
			number := uint64((epoch + int64(r.net.Now())) / int64(time.Millisecond))
			for i, p := range order {
				r.markLater(r.groups[p], number, time.Duration(i)*gap)
			}
		})
	}
}

// markLater asks a replica of a partition for a backup, another one if it is down.
func (r *tree) markLater(g *treeGroup, number uint64, in time.Duration) {
	r.net.Schedule(r.net.Now()+in, func() {
		if r.cuts[number][g.partition()] != nil {
			r.reach[savedByCarrier]++
		}
		p := g.members[r.net.Rand().IntN(len(g.members))]
		if !r.net.Up(p) {
			r.markLater(g, number, 50*time.Millisecond)
			return
		}
		r.net.Node(p).(*treeNode).Mark(number, false)
		r.net.Poke(p)
	})
}

// cut keeps the state that a replica saves for a backup.
func (n *treeNode) cut(number uint64) error {
	var b bytes.Buffer
	if err := meta.Snapshot(n.keys.Store, &b); err != nil {
		return err
	}
	saved := n.run.cuts[number]
	if saved == nil {
		saved = map[uint16][]byte{}
		n.run.cuts[number] = saved
	}
	if other := saved[n.partition]; other != nil && !bytes.Equal(other, b.Bytes()) {
		return fmt.Errorf("backup %d: replicas of partition %d save different states", number, n.partition)
	}
	saved[n.partition] = b.Bytes()
	return nil
}

func (r *tree) judgeBackups(reach treeReach) error {
	if err := r.judge(reach); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(r.cuts)) {
		if len(r.cuts[number]) < len(r.groups) {
			continue // a later backup has overtaken it
		}
		if err := r.judgeCut(r.cuts[number], reach); err != nil {
			return fmt.Errorf("backup %d: %w", number, err)
		}
		reach[savedAll]++
	}
	return nil
}

func (r *tree) judgeCut(saved map[uint16][]byte, reach treeReach) error {
	var keys []meta.Keys
	var stores []replica.Keys
	for p := range uint16(len(saved)) {
		store := kv.NewMemory()
		if err := restore(store, saved[p]); err != nil {
			return err
		}
		keys, stores = append(keys, store), append(stores, store)
		for range store.Scan([]byte{postKeys}, []byte{postKeys + 1}) {
			reach[postsOpen]++
		}
	}
	found, err := cross.Contradictions(keys)
	if err != nil || len(found) > 0 {
		return errors.Join(err, fmt.Errorf("no consistent cut: %q", found))
	}
	done, err := replica.Refound(stores, 7)
	if err != nil {
		return err
	}
	reach[concludedOpen] += done.Committed
	reach[abortedOpen] += done.Aborted
	for p, k := range keys {
		if bad := meta.Check(k); len(bad) > 0 {
			return fmt.Errorf("restored partition %d: %q", p, bad)
		}
		if n := meta.Undecided(k); n > 0 {
			return fmt.Errorf("restored partition %d: %d commands are undecided", p, n)
		}
	}
	if bad := meta.CheckAll(keys); len(bad) > 0 {
		return fmt.Errorf("restored partitions: %q", bad)
	}
	return nil
}

// postKeys is the first byte of the keys of posts, of package meta.
const postKeys = 0x0c
