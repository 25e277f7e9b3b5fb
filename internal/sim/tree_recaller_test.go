package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

const (
	boundWaited treeMark = "a linearizable read by a bound client waited for the return of a directory"
	boundSpared treeMark = "a linearizable read by a bound client waited for the end of a protection"
)

// TestTreeDelegationsBound: a client with a narrow certificate recalls the directories of the others by
// linearizable reads, as often as it can. The replicas, which crash, agree on the protected directories: all
// judge alike what is recalled.
func TestTreeDelegationsBound(t *testing.T) {
	reach := treeReach{}
	seeds(t, 60, func(seed uint64) error {
		h := newTreeHolders()
		h.crashes, h.regains, h.bound = seed%3 == 0, true, true
		r := treeRun(seed, treeSetup{holders: h})
		return h.judge(r, reach)
	})
	reach.require(t, workedInLog, heardRecall, regained, boundWaited, boundSpared)
}

// recaller is a client with a narrow certificate. It may read all directories of the holders.
var recaller = &ask.Client{Name: "recaller", Authority: &posix.Authority{
	UIDs: []posix.IDs{{First: 1 << 30, Last: 1 << 30}}, GIDs: []posix.IDs{{First: 1 << 30, Last: 1 << 30}},
}}

// recall lets the recaller read until the faults end.
func (t *treeHolders) recall(r *tree) {
	if r.net.Now() > treeFaults {
		return
	}
	r.net.Schedule(r.net.Now()+r.net.between(5*time.Millisecond, 60*time.Millisecond), func() { t.recall(r) })
	if len(t.dirs) == 0 {
		return
	}
	dirs := slices.Sorted(maps.Keys(t.dirs))
	dir := t.dirs[dirs[r.net.Rand().IntN(len(dirs))]]
	c := meta.Command{Op: meta.OpReadDir, Cred: posix.Cred{UID: 1 << 30, GID: 1 << 30}, Ino: dir.ino, Length: 100}
	q := ask.Request{Kind: ask.Query, Fresh: true, Command: c.Append(nil)}
	members, held, began := r.groups[heldPartition].members, dir.isHeld(), r.net.Now()
	r.net.Call(members[r.net.Rand().IntN(len(members))], turn.Call{Data: q.Append(nil), From: recaller}, 3*time.Second, func(_ []byte, ok bool) {
		if ok && held && !dir.isHeld() {
			r.reach[boundWaited]++
			if r.net.Now()-began >= 900*time.Millisecond {
				r.reach[boundSpared]++
			}
		}
	})
}
