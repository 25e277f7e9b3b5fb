package meta

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// vote has the part of a command's scene that is in one partition, or the code of a refusal. It contains no
// outcome: all parties compute the same outcome from the votes of all.
type vote struct {
	partition uint16
	code      posix.Code   // the code with which this party refuses alone; OK: it does not
	final     bool         // the outcome has this code whatever the other votes are
	time      posix.Time   // time of the command in this partition
	inodes    []posix.Attr // inodes that the command names
	source    entry        // entries, without their names
	target    entry
	ways      ways
	export    []byte // the inode that moves, with all that belongs to it
}

// inode returns the sight of an inode in the vote.
func (v *vote) inode(ino posix.Ino) (sight, bool) {
	for i := range v.inodes {
		if v.inodes[i].Ino == ino {
			return sight{inode: inode{Attr: v.inodes[i]}, partition: v.partition}, true
		}
	}
	return sight{}, false
}

func (v *vote) encode() []byte {
	b := varint.AppendUint(nil, v.partition)
	b = appendBool(varint.AppendUint(b, uint8(v.code)), v.final)
	b = varint.AppendInt(b, int64(v.time))
	b = varint.AppendUint(b, uint64(len(v.inodes)))
	for i := range v.inodes {
		b = appendAttr(b, &v.inodes[i])
	}
	for _, e := range []*entry{&v.source, &v.target} {
		b = varint.AppendUint(b, e.ino)
		b = varint.AppendUint(b, e.kind)
		b = varint.AppendUint(b, e.at)
		b = varint.AppendUint(b, e.cookie)
	}
	b = varint.AppendUint(b, uint64(len(v.ways)))
	for i := range v.ways {
		w := &v.ways[i]
		b = varint.AppendUint(b, w.start)
		b = varint.AppendUint(b, w.top)
		b = varint.AppendUint(b, w.next)
		b = varint.AppendUint(b, w.passes)
	}
	return varint.AppendBytes(b, v.export)
}

func decodeVote(b []byte) (vote, error) {
	r := varint.NewReader(b)
	v := vote{partition: r.Uint16(), code: posix.Code(r.Uint8()), final: r.Uint(1) == 1, time: posix.Time(r.Int())}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		v.inodes = append(v.inodes, readAttr(r))
	}
	for _, e := range []*entry{&v.source, &v.target} {
		e.ino, e.kind, e.at, e.cookie = posix.Ino(r.Uint64()), posix.Mode(r.Uint32()), r.Uint16(), r.Uint64()
	}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		v.ways = append(v.ways, way{
			start: posix.Ino(r.Uint64()), top: posix.Ino(r.Uint64()), next: posix.Ino(r.Uint64()), passes: r.Uint8(),
		})
	}
	v.export = r.Bytes()
	if err := r.Done(); err != nil {
		return vote{}, fmt.Errorf("vote: %w", err)
	}
	return v, nil
}

// decodeVotes decodes one vote of each party, in the order of parties. ok is false if they are not that.
func decodeVotes(encoded [][]byte, parties []uint16) ([]vote, bool) {
	if len(encoded) != len(parties) {
		return nil, false
	}
	votes := make([]vote, len(encoded))
	for i, b := range encoded {
		var err error
		if votes[i], err = decodeVote(b); err != nil {
			return nil, false
		}
	}
	slices.SortFunc(votes, func(a, b vote) int { return cmp.Compare(a.partition, b.partition) })
	for i := range votes {
		if !slices.Contains(parties, votes[i].partition) || i > 0 && votes[i].partition == votes[i-1].partition {
			return nil, false
		}
	}
	return votes, true
}

// gather composes the scene of c from the votes.
func gather(c *Command, votes []vote) *scene {
	missing := sight{code: posix.EREMOTE}
	s := &scene{from: missing, to: missing, moved: missing, replaced: missing}
	k := c.cast()
	for i := range votes {
		v := &votes[i]
		for _, x := range []struct {
			ino  posix.Ino
			into *sight
		}{{k.from, &s.from}, {k.to, &s.to}, {k.moved, &s.moved}, {k.replaced, &s.replaced}} {
			if seen, ok := v.inode(x.ino); ok && x.ino != 0 {
				*x.into = seen
			}
		}
		if s.from.in(v.partition) {
			s.source = v.source
			s.source.name = c.Name
		}
		if s.to.in(v.partition) {
			s.target = v.target
			s.target.name = c.NewName
		}
		s.ways = append(s.ways, v.ways...)
	}
	return s
}
