package sim

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// How blocks are judged. The model knows which block holds which byte of which file after each update, in the
// total order of updates. A block that was seen to be deleted, by who deleted it or who looked for it, must
// be dead by then: no file that has a name holds it; if its file is held open, then no file at all. And no
// update names it later. At the end each block that is alive is where it is looked for, and nothing else is
// left anywhere.

// wrote notes which blocks the bytes of a file come from.
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

// text is what u writes.
func (u *change) text() string {
	text := string(u.command.Data)
	for _, k := range u.command.Blocks {
		text += blockText(k.ID)
	}
	return text
}

// holder gives a file that holds a block, 0 if none does. Files without a name count only if open is set.
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

// deadUpTo checks what was seen to be deleted up to a time, of which all updates are executed.
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

// names: what u names was not deleted, and is of its session.
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

// badBlocks reports whether u is a write that was refused because of the blocks that it names, of which the
// model knows nothing: its client had given them up, or they are of another session.
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

// blocksLeft compares the stores with what files hold in the end.
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
