package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Class identifies the messages with exactly the same destination groups: two bytes for each group, in
// ascending order. A core that orders by classes (see the package's documentation) has one order for each
// class. A core without classes has one order, of the class "".
type Class string

// ClassOf returns the class of the messages to dest. dest must be sorted and without duplicates.
func ClassOf(dest []GroupID) Class {
	b := make([]byte, 0, 2*len(dest))
	for _, g := range dest {
		b = binary.BigEndian.AppendUint16(b, uint16(g))
	}
	return Class(b)
}

// Groups returns the destination groups of the messages of c; none for "". The caller owns the result.
func (c Class) Groups() []GroupID {
	groups := make([]GroupID, len(c)/2)
	for i := range groups {
		groups[i] = GroupID(c[2*i])<<8 | GroupID(c[2*i+1])
	}
	return groups
}

// To reports whether messages of c are delivered in group g. Messages of "" may go to any group.
func (c Class) To(g GroupID) bool { return c == "" || slices.Contains(c.Groups(), g) }

// String returns the groups in the form "{0 3}".
func (c Class) String() string {
	return "{" + strings.Trim(fmt.Sprint(c.Groups()), "[]") + "}"
}

// ClassPosition is a position in the order of a class.
type ClassPosition struct {
	Class Class
	Position
}

// Progress says for each class up to which position a process has delivered its messages. It is sorted by
// class. A class that is missing has no delivery yet. The zero Progress means that nothing was delivered.
type Progress []ClassPosition

// UpTo returns the Progress of a core without classes.
func UpTo(at Position) Progress {
	var p Progress
	p.Advance("", at)
	return p
}

// find returns the index of a class, or the index at which it is to be inserted, and whether it is present.
func (p Progress) find(c Class) (int, bool) {
	if len(p) == 1 && p[0].Class == c {
		return 0, true
	}
	return slices.BinarySearchFunc(p, c, func(at ClassPosition, c Class) int { return strings.Compare(string(at.Class), string(c)) })
}

// Of returns the position of a class; the zero Position if the class has no delivery yet.
func (p Progress) Of(c Class) Position {
	if i, ok := p.find(c); ok {
		return p[i].Position
	}
	return Position{}
}

// Advance moves the position of a class forward to at. It reports false, and changes nothing, if the class is
// already as far.
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

// Merge moves each class forward to its position in other, if that is higher.
func (p *Progress) Merge(other Progress) {
	for _, at := range other {
		p.Advance(at.Class, at.Position)
	}
}

// Covers reports whether each class of other is as far in p.
func (p Progress) Covers(other Progress) bool {
	return !slices.ContainsFunc(other, func(at ClassPosition) bool { return p.Of(at.Class).Compare(at.Position) < 0 })
}

// Equal reports whether p and other have the same classes with the same positions.
func (p Progress) Equal(other Progress) bool { return slices.Equal(p, other) }

// Append appends the encoding of p to b.
func (p Progress) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, at := range p {
		b = append(binary.AppendUvarint(b, uint64(len(at.Class))), at.Class...)
		b = binary.AppendUvarint(b, uint64(at.Final))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(at.ID.Sender)), at.ID.Seq)
	}
	return b
}

// ErrProgress is the error of DecodeProgress for bytes that are no encoding of a Progress.
var ErrProgress = errors.New("not the positions of classes")

// DecodeProgress decodes b, which must be exactly one encoding by Append.
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
