package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Class names a set of destination groups, and so the messages that go to exactly these. A core that orders
// by classes (see the package's documentation) keeps one order for each. "" is the class of all messages at a
// core that does not.
type Class string

// ClassOf gives the class of the messages to dest, which is sorted and without duplicates.
func ClassOf(dest []GroupID) Class {
	b := make([]byte, 0, 2*len(dest))
	for _, g := range dest {
		b = binary.BigEndian.AppendUint16(b, uint16(g))
	}
	return Class(b)
}

// Groups gives the groups that messages of c go to; none for "". The caller owns it.
func (c Class) Groups() []GroupID {
	groups := make([]GroupID, len(c)/2)
	for i := range groups {
		groups[i] = GroupID(c[2*i])<<8 | GroupID(c[2*i+1])
	}
	return groups
}

// To reports whether messages of c go to g; those of "" may go to any group.
func (c Class) To(g GroupID) bool { return c == "" || slices.Contains(c.Groups(), g) }

// String lists the groups, as "{0 3}".
func (c Class) String() string {
	return "{" + strings.Trim(fmt.Sprint(c.Groups()), "[]") + "}"
}

// ClassPosition is a place in the order of a class.
type ClassPosition struct {
	Class Class
	Position
}

// Progress is how far the deliveries of each class have come: a position for each, in the order of their
// names. A class that is not in it has not begun. The zero Progress is before all.
type Progress []ClassPosition

// UpTo is the progress of a core without classes.
func UpTo(at Position) Progress {
	var p Progress
	p.Advance("", at)
	return p
}

// find gives the place of a class, and whether it is there. Without classes there is one place.
func (p Progress) find(c Class) (int, bool) {
	if len(p) == 1 && p[0].Class == c {
		return 0, true
	}
	return slices.BinarySearchFunc(p, c, func(at ClassPosition, c Class) int { return strings.Compare(string(at.Class), string(c)) })
}

// Of gives the position of a class.
func (p Progress) Of(c Class) Position {
	if i, ok := p.find(c); ok {
		return p[i].Position
	}
	return Position{}
}

// Advance moves a class forward; false if it is there already.
func (p *Progress) Advance(c Class, at Position) bool {
	i, ok := p.find(c)
	switch {
	case !ok && at != (Position{}):
		*p = slices.Insert(*p, i, ClassPosition{c, at})
	case ok && at.Compare((*p)[i].Position) > 0:
		(*p)[i].Position = at
	default:
		return false
	}
	return true
}

// Merge moves each class forward to where other is.
func (p *Progress) Merge(other Progress) {
	for _, at := range other {
		p.Advance(at.Class, at.Position)
	}
}

// Covers reports whether no class is behind other.
func (p Progress) Covers(other Progress) bool {
	return !slices.ContainsFunc(other, func(at ClassPosition) bool { return p.Of(at.Class).Compare(at.Position) < 0 })
}

// Equal reports whether all classes are where they are in other.
func (p Progress) Equal(other Progress) bool { return slices.Equal(p, other) }

// Append encodes p.
func (p Progress) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, at := range p {
		b = append(binary.AppendUvarint(b, uint64(len(at.Class))), at.Class...)
		b = binary.AppendUvarint(b, uint64(at.Final))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(at.ID.Sender)), at.ID.Seq)
	}
	return b
}

// ErrProgress says that bytes are not those of a Progress.
var ErrProgress = errors.New("not the positions of classes")

// DecodeProgress decodes all of b, which Append made.
func DecodeProgress(b []byte) (Progress, error) {
	next := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	whole := len(b)
	var p Progress
	for count := next(uint64(whole)); count > 0; count-- {
		name := next(uint64(len(b)))
		if uint64(len(b)) < name {
			return nil, ErrProgress
		}
		at := ClassPosition{Class: Class(b[:name])}
		b = b[name:]
		at.Final = Timestamp(next(1<<64 - 1))
		at.ID = MessageID{Sender: ProcessID(next(1<<32 - 1)), Seq: next(1<<64 - 1)}
		if n := len(p); b == nil || name%2 != 0 || at.Position == (Position{}) || n > 0 && p[n-1].Class >= at.Class {
			return nil, ErrProgress
		}
		p = append(p, at)
	}
	if b == nil || len(b) > 0 {
		return nil, ErrProgress
	}
	return p, nil
}
