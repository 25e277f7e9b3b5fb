package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// outcome is the result of a command as the votes determine it. It is the same at all parties; each party
// executes its part of it.
type outcome struct {
	code   posix.Code
	scene  *scene
	time   posix.Time
	moving *exported // the inode that moves to Target
	task   bool      // everything below the moved directory must follow to Target
}

// combine computes the outcome from the votes. It is a pure function, so that all parties get the same
// result.
func combine(c *Command, votes []vote) outcome {
	o := outcome{scene: gather(c, votes)}
	for i := range votes {
		o.time = max(o.time, votes[i].time)
	}
	if o.code = c.bind(); o.code != posix.OK {
		return o
	}
	if !o.scene.coherent() {
		o.code = orRefusal(posix.EREMOTE, votes)
		return o
	}
	o.decide(c, votes)
	o.code = orRefusal(o.code, votes)
	return o
}

// orRefusal returns code, or the code of a party that refuses the command alone if code is OK. If all votes
// are right, the checks of the outcome refuse such a command anyway (alone.go).
func orRefusal(code posix.Code, votes []vote) posix.Code {
	for i := range votes {
		switch {
		case code != posix.OK && code != posix.EREMOTE:
			return code
		case votes[i].code == posix.EHELD:
			return posix.EHELD
		case votes[i].code != posix.OK:
			code = posix.EREMOTE
		}
	}
	return code
}

// decide sets the code of the outcome, and the changes to make.
func (o *outcome) decide(c *Command, votes []vote) {
	switch c.Op {
	case OpLink:
		o.code = o.scene.checkLink(c)
	case OpUnlink, OpRmdir:
		o.code = o.scene.checkRemove(c)
	case OpRename:
		o.code = o.rename(c, votes)
	case OpMove:
		o.code = o.move(c, votes)
	case OpPlace:
		o.code = o.place(c, votes)
	default:
		o.code = posix.EINVAL
	}
}

// coherent reports whether the types in names and inodes agree. If not, a vote is wrong.
func (s *scene) coherent() bool {
	matches := func(e *entry, n *sight) bool {
		return e.ino == 0 || n.code != posix.OK || e.ino != n.Ino || e.kind == n.Mode.Type()
	}
	return matches(&s.source, &s.moved) && matches(&s.target, &s.replaced)
}

func voteOf(votes []vote, partition uint16) *vote {
	for i := range votes {
		if votes[i].partition == partition {
			return &votes[i]
		}
	}
	return nil
}

func (o *outcome) rename(c *Command, votes []vote) posix.Code {
	s := o.scene
	if code := s.checkRename(c); code != posix.OK {
		return code
	}
	if s.sameFile() {
		return posix.OK
	}
	parties := partiesOf(votes)
	if s.moved.Mode.IsDir() {
		o.task = c.Ino != c.NewParent && s.moved.partition != c.Target && slices.Contains(parties, c.Target)
		return posix.OK
	}
	if s.moved.mayMove(c, parties) {
		return o.take(c, votes)
	}
	return posix.OK
}

// take decodes the inode that moves, if its partition has exported it.
func (o *outcome) take(c *Command, votes []vote) posix.Code {
	b := voteOf(votes, o.scene.moved.partition).export
	if len(b) == 0 {
		return posix.OK
	}
	x, err := decodeExport(b)
	if err != nil || x.inode.Ino != c.Child || x.inode.Attr != o.scene.moved.Attr {
		return posix.EREMOTE
	}
	o.moving = x
	return posix.OK
}

func (o *outcome) move(c *Command, votes []vote) posix.Code {
	n := &o.scene.moved
	if code := o.scene.checkMove(c); code != posix.OK || n.partition == c.Target {
		return code
	}
	if !n.mayMove(c, partiesOf(votes)) {
		return posix.EREMOTE
	}
	code := o.take(c, votes)
	if code == posix.OK && o.moving == nil {
		return posix.EFBIG
	}
	return code
}

func (o *outcome) place(c *Command, votes []vote) posix.Code {
	code := o.scene.checkPlace(c)
	if voteOf(votes, tablePartition) == nil && code != posix.EINVAL {
		return posix.EREMOTE
	}
	return code
}

func (s *scene) checkMove(c *Command) posix.Code {
	switch {
	case isRoot(c.Child):
		return posix.EBUSY
	case s.moved.code != posix.OK:
		return s.moved.code
	case s.moved.Nlink == 0:
		return posix.ENOENT
	}
	return posix.OK
}

func (s *scene) checkPlace(c *Command) posix.Code {
	if _, code := c.wantedRule(); code != posix.OK {
		return code
	}
	if code := s.from.directory("."); code != posix.OK {
		return code
	}
	return c.owns(&s.from.Attr)
}

func partiesOf(votes []vote) []uint16 {
	parties := make([]uint16, len(votes))
	for i := range votes {
		parties[i] = votes[i].partition
	}
	return parties
}
