package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// How a run is judged.
//
// Updates. One total order of all updates is made: by the moment at which each was first seen to take effect
// at any replica of any partition (change.first). It keeps each client's own order, and real time, since
// every update has its moment between being issued and answered. The reference model, which knows of no
// partitions, executes the updates in this order, one after the other, and must come to the same results, and
// in the end to the same tree. So updates are linearizable: what each client was told is what it would have
// been told by one machine. The order is not searched for; were there another one that fits while this does
// not, two conflicting updates would have passed each other's locks, and we want to know.
//
// Reads. From the places in the partitions' own orders it is known what each answer must be: of an object (a
// name, the content of an inode, its links), what the last update left that changed or brought it to that
// partition up to the place at which the replica answered (versions). And that place must be after all that
// the client could know when it asked: its own updates, what it has read, what others
// have told it, and all that who made these knew in turn (knowledge). Where clients ask for linearizability,
// each knows what any other was told before.

// judge compares the end, and all answers, with what they must be.
func (r *tree) judge(reach treeReach) error {
	if r.net == nil || r.net.Err() != nil || len(r.errs) > 0 {
		return errors.Join(append(r.errs, r.netErr())...)
	}
	for _, c := range r.clients {
		if !c.finished {
			return fmt.Errorf("client %d still waits at the end", c.id)
		}
	}
	if err := r.alike(); err != nil {
		return err
	}
	j := newTreeJudge(r)
	for _, step := range []func() error{j.replay, j.knowledge, j.reads, j.end, j.blocksLeft} {
		if err := step(); err != nil {
			return err
		}
	}
	reach.add(r.reach)
	return nil
}

func (r *tree) netErr() error {
	if r.net == nil {
		return nil
	}
	return r.net.Err()
}

// alike: the replicas of each partition hold the same bytes, these are sound, and nothing is left to do.
func (r *tree) alike() error {
	var stores []meta.Keys
	for p, group := range r.groups {
		if err := group.agrees(); err != nil {
			return err
		}
		first := dump(r.disks[group.members[0]].keys)
		for _, member := range group.members[1:] {
			if err := sameKeys(first, dump(r.disks[member].keys)); err != nil {
				return fmt.Errorf("partition %d: replicas %d and %d differ at the end: %w", p, group.members[0], member, err)
			}
		}
		keys := r.disks[group.members[0]].keys
		if err := soundDigest(keys); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		stores = append(stores, keys)
		if bad := meta.Check(keys); len(bad) > 0 {
			return fmt.Errorf("partition %d: %q", p, bad)
		}
		for key := range keys.Scan([]byte{coordinatedKeys}, []byte{coordinatedKeys + 1}) {
			return fmt.Errorf("partition %d: command %x of several partitions is still remembered", p, key)
		}
		machine := r.machine(group.members[0])
		if to := machine.Destinations(); len(to) > 0 {
			return fmt.Errorf("partition %d: still in the outbox to partition %d: %+v", p, to[0], machine.Outbox(to[0], 1))
		}
		if orphans := machine.Orphans(0, 1); len(orphans) > 0 {
			return fmt.Errorf("partition %d: nobody holds inode %d, and it is not reaped", p, orphans[0].Ino)
		}
	}
	if bad := meta.CheckAll(stores); len(bad) > 0 {
		return fmt.Errorf("all partitions: %q", bad)
	}
	return nil
}

func (r *tree) machine(p multicast.ProcessID) *meta.Machine { return r.net.Node(p).(*treeNode).machine }

// sameKeys compares two dumps.
func sameKeys(a, b []string) error {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Errorf("%x is only at the second", b[i])
		case i >= len(b):
			return fmt.Errorf("%x is only at the first", a[i])
		case a[i] != b[i]:
			return fmt.Errorf("%x and %x", a[i], b[i])
		}
	}
	return nil
}

// treeJudge is a run with what the model makes of it.
type treeJudge struct {
	run      *tree
	order    []*change // with effect, in the total order
	model    *oneTree
	versions map[object][]version
	known    []bits // by order: what its client knew when it issued it
	place    map[*change]int
	touched  map[*change][]object
	deleted  map[posix.BlockID]bool // so far, as the replay goes
}

func newTreeJudge(r *tree) *treeJudge {
	return &treeJudge{run: r, model: newOneTree(), versions: map[object][]version{}, place: map[*change]int{}, touched: map[*change][]object{}, deleted: map[posix.BlockID]bool{}}
}

// replay executes all updates in their order by the model.
func (j *treeJudge) replay() error {
	all := slices.DeleteFunc(slices.Clone(j.run.history.changes), j.run.inDoubt)
	all = slices.DeleteFunc(all, func(u *change) bool {
		return slices.Contains([]posix.Code{posix.EREMOTE, posix.EHELD, posix.ESTALE, posix.ETIMEDOUT}, u.result.Code)
	})
	all = slices.DeleteFunc(all, j.run.badBlocks)
	for _, u := range all {
		if u.first() <= u.issued || u.first() >= u.answered {
			return fmt.Errorf("%v: took effect at %d, was issued at %d and answered at %d", u, u.first(), u.issued, u.answered)
		}
	}
	slices.SortFunc(all, func(a, b *change) int { return cmp.Compare(a.first(), b.first()) })
	for _, u := range all {
		if err := j.deadUpTo(u.first()); err != nil {
			return err
		}
		if u.result.Code != posix.OK {
			if err := j.refused(u); err != nil {
				return err
			}
			continue
		}
		if err := j.names(u); err != nil {
			return err
		}
		j.place[u] = len(j.order)
		j.order = append(j.order, u)
		touched := j.model.touches(u)
		if err := j.model.execute(u); err != nil {
			return err
		}
		j.touched[u] = append(touched, j.model.touches(u)...)
		for _, o := range j.touched[u] {
			j.versions[o] = append(j.versions[o], version{u, j.model.value(o)})
		}
	}
	return j.deadUpTo(noAnswer)
}

// refused: the model refuses u, too, as it is now. One of several partitions may have been refused by what
// one of them alone saw, at any time since it was issued: that party held nothing, and what it saw may have
// changed before the decision. A refusal changes nothing, so its place in the order is that moment.
func (j *treeJudge) refused(u *change) error {
	now, agrees := j.refusedAfter(len(j.order), u)
	if agrees {
		return nil
	}
	if u.dest != nil {
		for n := len(j.order); n > 0 && j.order[n-1].first() > u.issued; n-- {
			if _, agrees := j.refusedAfter(n-1, u); agrees {
				return nil
			}
		}
	}
	return fmt.Errorf("%v: the model says %v", u, now)
}

// refusedAfter gives what a model that has executed the first n updates says to u, and whether that is what
// its client was told.
//
// A file in the place of a directory above it is refused for two reasons, both of them true. The model, like
// Linux, looks for ways up first and says ENOTEMPTY. Nobody asks for the way up from the directory of a file
// over partitions, so EISDIR is what is found first here.
func (j *treeJudge) refusedAfter(n int, u *change) (code posix.Code, agrees bool) {
	t := j.model
	if n < len(j.order) {
		t = j.modelAfter(n)
	}
	c := &u.command
	file := c.Op == meta.OpRename && !t.parents[t.child(c.Ino, c.Name)]
	code = t.try(u)
	if code == posix.OK && t == j.model {
		j.model = j.modelAfter(n) // it has done it
	}
	return code, code == u.result.Code || file && code == posix.ENOTEMPTY && u.result.Code == posix.EISDIR
}

// modelAfter makes a model that has executed the first n updates.
func (j *treeJudge) modelAfter(n int) *oneTree {
	t := newOneTree()
	for _, v := range j.order[:n] {
		if err := t.execute(v); err != nil {
			panic(err) // it has been executed before
		}
	}
	return t
}

// String describes an update for who looks for a bug.
func (u *change) String() string {
	c := u.command
	at := fmt.Sprint(u.count)
	if u.crossing != nil {
		at = fmt.Sprint(u.crossing.count)
	}
	return fmt.Sprintf("update %d of client %d to partition %d %v [op %d, inode %d %q, to %d %q, flags %d, child %d %d, target %d, chain %v %v, offset %d %q] -> %v %+v %d, at %s",
		u.number, u.client, u.asked, u.dest, c.Op, c.Ino, c.Name, c.NewParent, c.NewName, c.Flags, c.Child, c.NewChild, c.Target, c.Chain, c.Back, c.Offset, c.Data,
		u.result.Code, u.result.Attr, u.result.Number, at)
}
