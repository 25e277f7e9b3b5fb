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
// partitions, executes the updates in this order, one after the other, and must give the same results and the
// same final tree. So updates are linearizable: each client has received the answers of a single machine. The
// judge does not search for an order. If this order does not fit and another one does, two conflicting
// updates have passed each other's locks, which is an error.
//
// Reads. The places in the partitions' own orders determine each answer. For an object (a name, the content
// of an inode, its links), it is the value after the last update that changed the object, or brought it to
// that partition, up to the place at which the replica answered (versions). That place must be after
// everything that the client could know when it asked: its own updates, its reads, the messages of other
// clients, and in turn the knowledge of the clients that made these updates (knowledge). Where clients ask
// for linearizability, each client knows all earlier answers to any client.

// judge compares the end, and all answers, with the required values.
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

// alike checks that the replicas of each partition hold the same bytes, that these are sound, and that no
// work is left.
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

// treeJudge is a run with the results of the model.
type treeJudge struct {
	run      *tree
	order    []*change // with effect, in the total order
	model    *oneTree
	versions map[object][]version
	known    []bits // by order: the knowledge of its client when it issued the update
	place    map[*change]int
	touched  map[*change][]object
	deleted  map[posix.BlockID]bool // up to the present point of the replay
}

func newTreeJudge(r *tree) *treeJudge {
	return &treeJudge{run: r, model: newOneTree(), versions: map[object][]version{}, place: map[*change]int{}, touched: map[*change][]object{}, deleted: map[posix.BlockID]bool{}}
}

// replay executes all updates in their order on the model.
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

// refused checks that the model refuses u too, in its present state. For an update of several partitions, one
// party alone may have caused the refusal, at any time since the update was issued: that party held no locks,
// and its state may have changed before the decision. A refusal changes nothing, so its place in the order is
// that moment.
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

// refusedAfter gives the answer to u of a model that has executed the first n updates, and reports whether
// the client of u got the same answer.
//
// A rename of a file to the name of a directory above it is refused for two valid reasons. The model, like
// Linux, checks the ancestors first and returns ENOTEMPTY. Over partitions no replica looks up the ancestors
// of a file's directory, so the first error is EISDIR.
func (j *treeJudge) refusedAfter(n int, u *change) (code posix.Code, agrees bool) {
	t := j.model
	if n < len(j.order) {
		t = j.modelAfter(n)
	}
	c := &u.command
	file := c.Op == meta.OpRename && !t.parents[t.child(c.Ino, c.Name)]
	code = t.try(u)
	if code == posix.OK && t == j.model {
		j.model = j.modelAfter(n) // the model has executed u
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

// String describes an update for debugging.
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
