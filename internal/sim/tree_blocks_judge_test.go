package sim

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// How blocks are judged. The model knows the block of each byte of each file after each update, in the total
// order of updates. A block that a client has deleted or has found deleted must be dead by then: no named
// file contains it, and if a client holds its file open, no file at all. And no later update names the block.
// At the end each live block is in its store, and no other block is left.

// wrote records the blocks of the bytes of a file after a write.
func (t *oneTree) wrote(u *change) {
	ino, at := u.result.Attr.Ino, int(u.result.Number)
	var pieces []posix.BlockID
	for range u.command.Data {
		pieces = append(pieces, posix.BlockID{})
	}
	for _, k := range u.command.Blocks {
		for range k.Length {
			pieces = append(pieces, k.ID)
		}
	}
	now := t.pieces[ino]
	for len(now) < at+len(pieces) {
		now = append(now, posix.BlockID{})
	}
	copy(now[at:], pieces)
	t.pieces[ino] = now
}

// text returns the text that u writes.
func (u *change) text() string {
	text := string(u.command.Data)
	for _, k := range u.command.Blocks {
		text += blockText(k.ID)
	}
	return text
}

// holder gives a file that contains a block, 0 if there is none. Files without a name count only if open is
// set.
func (t *oneTree) holder(id posix.BlockID, open bool) posix.Ino {
	ino, found := t.blockOf[id]
	if !found {
		return 0
	}
	for _, piece := range t.pieces[ino] {
		if piece == id && (open || t.value(object{"links", ino, ""}) != noLinks) {
			return ino
		}
	}
	return 0
}

// deadUpTo checks the blocks that were seen to be deleted up to a time; all updates up to that time are
// executed.
func (j *treeJudge) deadUpTo(clock int) error {
	s := &j.run.stores
	for ; len(s.missing) > 0 && s.missing[0].clock < clock; s.missing = s.missing[1:] {
		m := &s.missing[0]
		j.deleted[m.id] = true
		if ino := j.model.holder(m.id, m.open); ino != 0 {
			return fmt.Errorf("block %v is missing in the store of partition %d at %d: inode %d holds it", blockText(m.id), m.partition, m.clock, ino)
		}
	}
	return nil
}

// names checks the blocks that u names: none was deleted, and all are of its session.
func (j *treeJudge) names(u *change) error {
	for _, k := range u.command.Blocks {
		switch {
		case u.command.Op != meta.OpWrite:
		case j.deleted[k.ID]:
			return fmt.Errorf("%v: block %s was deleted before", u, blockText(k.ID))
		case k.ID.Session() != u.session:
			return fmt.Errorf("%v: block %s is of another session", u, blockText(k.ID))
		}
	}
	return nil
}

// badBlocks reports whether u is a write that was refused because of its blocks. The model does not know
// these reasons: the client had given the blocks up, or they are of another session.
func (r *tree) badBlocks(u *change) bool {
	if u.command.Op != meta.OpWrite || len(u.command.Blocks) == 0 || u.result.Code != posix.EINVAL {
		return false
	}
	other := u.command.Blocks[0].ID.Session() != u.session
	switch {
	case other:
		r.reach[otherSession]++
	case u.gaveUp:
		r.reach[lateRefused]++
	}
	return other || u.gaveUp
}

// blocksLeft compares the stores with the blocks of the files at the end.
func (j *treeJudge) blocksLeft() error {
	s := &j.run.stores
	alive := map[posix.BlockID]bool{}
	for p, group := range j.run.groups {
		for id, ino := range meta.Held(j.run.disks[group.members[0]].keys) {
			alive[id] = true
			if !s.has[p][id] && !s.has[id.Partition()][id] {
				return fmt.Errorf("block %s of inode %d in partition %d is nowhere at the end", blockText(id), ino, p)
			}
		}
	}
	for p := range s.has {
		for id := range s.has[p] {
			if !alive[id] {
				return fmt.Errorf("block %s is left in the store of partition %d at the end: no file holds it", blockText(id), p)
			}
		}
	}
	return nil
}
