package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// outcome is what the votes say of a command: the same at all parties, of which each does its part.
type outcome struct {
	code   posix.Code
	scene  *scene
	time   posix.Time
	fresh  inode     // that Mknod makes
	opened bool      // what Mknod would make is there already
	moving *exported // the inode that goes to Target
	task   bool      // what is below the directory moved is to follow to Target
}

// combine is a pure function: all parties must come to the same outcome.
func combine(c *Command, votes []vote) outcome {
	o := outcome{scene: gather(c, votes)}
	for i := range votes {
		o.time = max(o.time, votes[i].time)
	}
	if o.code = c.bind(); o.code != posix.OK {
		return o
	}
	if !o.scene.coherent() {
		o.code = posix.EREMOTE
		return o
	}
	switch c.Op {
	case OpMknod:
		o.code = o.mknod(c, votes)
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
	return o
}

// coherent reports whether names and inodes are of the same types. If not, somebody does not tell the truth.
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

func (o *outcome) mknod(c *Command, votes []vote) posix.Code {
	timed := *c
	timed.Time = o.time
	var code posix.Code
	if o.fresh, code = o.scene.checkMknod(&timed); code != posix.OK {
		return code
	}
	if o.scene.source.ino != 0 {
		o.opened = true
		return posix.OK
	}
	target := voteOf(votes, c.Target)
	if target == nil || o.scene.place != c.Target || target.fresh.Partition() != c.Target || target.fresh.Counter() < 2 {
		return posix.EREMOTE
	}
	o.fresh.Ino = target.fresh
	return posix.OK
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
		o.task = c.Ino != c.NewParent && s.moved.at != c.Target && slices.Contains(parties, c.Target)
		return posix.OK
	}
	if s.moved.mayMove(c, parties) {
		return o.take(c, votes)
	}
	return posix.OK
}

// take reads the inode that moves, if its partition could export it.
func (o *outcome) take(c *Command, votes []vote) posix.Code {
	b := voteOf(votes, o.scene.moved.at).export
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
	parties, n := partiesOf(votes), &o.scene.moved
	switch {
	case isRoot(c.Child):
		return posix.EBUSY
	case n.code != posix.OK:
		return n.code
	case n.Nlink == 0:
		return posix.ENOENT
	case n.at == c.Target:
		return posix.OK
	case !n.mayMove(c, parties):
		return posix.EREMOTE
	}
	code := o.take(c, votes)
	if code == posix.OK && o.moving == nil {
		return posix.EFBIG
	}
	return code
}

func (o *outcome) place(c *Command, votes []vote) posix.Code {
	if _, code := c.wantedRule(); code != posix.OK {
		return code
	}
	if voteOf(votes, tablePartition) == nil {
		return posix.EREMOTE
	}
	if code := o.scene.from.directory("."); code != posix.OK {
		return code
	}
	return c.owns(&o.scene.from.Attr)
}

func partiesOf(votes []vote) []uint16 {
	parties := make([]uint16, len(votes))
	for i := range votes {
		parties[i] = votes[i].partition
	}
	return parties
}
