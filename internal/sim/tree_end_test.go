package sim

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// end compares the tree of the replicas with that of the model, from the root down.
func (j *treeJudge) end() error {
	seen := map[posix.Ino]bool{}
	return j.sameBelow(posix.Root, seen)
}

// stored finds the partition that has an inode.
func (j *treeJudge) stored(ino posix.Ino) (*meta.Machine, meta.Result, error) {
	var at *meta.Machine
	var found meta.Result
	for p := range j.run.groups {
		m := j.run.machine(j.run.groups[p].members[0])
		switch r := m.Query(&meta.Command{Op: meta.OpGetAttr, Ino: ino}); {
		case r.Code == posix.OK && at != nil:
			return nil, r, fmt.Errorf("inode %d is in two partitions at the end", ino)
		case r.Code == posix.OK:
			at, found = m, r
		}
	}
	if at == nil {
		return nil, found, fmt.Errorf("inode %d is nowhere at the end", ino)
	}
	return at, found, nil
}

// sameBelow compares an inode, and the tree below it if it is a directory.
func (j *treeJudge) sameBelow(ino posix.Ino, seen map[posix.Ino]bool) error {
	if seen[ino] {
		return nil
	}
	seen[ino] = true
	at, found, err := j.stored(ino)
	if err != nil {
		return err
	}
	want := j.model.model.Query(&meta.Command{Op: meta.OpGetAttr, Ino: j.model.number(ino)}).Attr
	got := found.Attr
	if got.Nlink != want.Nlink || got.Size != want.Size || got.Mode != want.Mode || ino.Counter() != 1 && got.UID != want.UID {
		return fmt.Errorf("inode %d is %+v at the end, should be %+v", ino, got, want)
	}
	if got.Mode.IsRegular() {
		m := at.Query(&meta.Command{Op: meta.OpExtents, Ino: ino, Length: 1 << 20})
		if text := textOf(&m); text != j.model.contents[ino] {
			return fmt.Errorf("inode %d holds %q at the end, should hold %q", ino, text, j.model.contents[ino])
		}
		return nil
	}
	listed := at.Query(&meta.Command{Op: meta.OpReadDir, Ino: ino, Length: 1000})
	if listed.Code != posix.OK {
		return fmt.Errorf("directory %d at the end: %v", ino, listed.Code)
	}
	for i := range listed.Entries {
		e := &listed.Entries[i]
		if should := j.model.child(ino, e.Name); should != e.Attr.Ino {
			return fmt.Errorf("%q in directory %d is inode %d at the end, should be %d", e.Name, ino, e.Attr.Ino, should)
		}
		if err := j.sameBelow(e.Attr.Ino, seen); err != nil {
			return err
		}
	}
	return nil
}
