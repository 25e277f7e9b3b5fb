package client

import (
	"context"
	"errors"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/lease"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// Bounds of the client's memory of the tree, in entries. Each entry may be out of date: the partitions then
// refuse the command.
const (
	maxSightings = 1 << 14 // names
	maxRules     = 1 << 12 // directories with a placement rule
)

// Names has the operations that look up, make, rename and remove names.
type Names struct {
	common
	copier *Copier
	seen   *recent.Map[Name, sighting]     // the inode of each name, as this client saw it last
	rules  *recent.Map[posix.Ino, placing] // rules of directories that have one
}

func newNames(c common, copier *Copier) *Names {
	return &Names{
		common: c, copier: copier,
		seen: recent.New[Name, sighting](maxSightings), rules: recent.New[posix.Ino, placing](maxRules),
	}
}

// Name is a name in a directory.
type Name struct {
	Dir  posix.Ino
	Name string
}

// Lookup returns the attributes of the inode with a name in dir.
func (n *Names) Lookup(ctx context.Context, dir posix.Ino, name string) (posix.Attr, error) {
	switch found, ino := n.leases.find(ctx, Name{dir, name}); found {
	case lease.Absent:
		return posix.Attr{}, posix.ENOENT
	case lease.Present:
		if a, ok := n.leases.attr(ctx, ino); ok && n.router.ShowsTicket(ino) {
			return a, nil
		}
	}
	if !n.router.delegations.covers(dir) { // otherwise the log answers
		var cancel context.CancelFunc
		ctx, cancel = n.router.Operation(ctx)
		defer cancel()
	}
	found, err := n.look(ctx, Name{dir, name})
	return found.child, n.outcome(err)
}

// Readlink returns the target of a symbolic link.
func (n *Names) Readlink(ctx context.Context, ino posix.Ino) ([]byte, error) {
	a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpReadlink, Ino: ino}, route.Inode(ino))
	return a.Data, err
}

// DirState is the state of a directory when it was read.
type DirState struct {
	Version uint64 // as long as Version returns the same, this client knows of no later update
	Last    uint64 // the newest cookie; names that are added later get greater cookies; 0: an older server
}

// ReadDir returns at most limit entries of dir after the cookie of an earlier entry, from the start if cookie
// is 0. At the end it returns no entries. For an inode in another partition only number and type are set:
// GetAttr returns the rest.
func (n *Names) ReadDir(ctx context.Context, dir posix.Ino, cookie, limit uint64) (entries []meta.Entry, state DirState, err error) {
	before := n.router.delegations.changes()
	if cookie == 0 {
		if a, ok := n.listing(ctx, dir, limit); ok {
			return a.Entries, DirState{versionOf(a.Partition, a.Seen) + before, a.Number}, nil
		}
	}
	a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: cookie, Length: limit}, route.Inode(dir))
	if err != nil {
		return nil, DirState{}, err
	}
	n.leases.listed(dir, cookie, limit, &a)
	for i := range a.Entries {
		if e := &a.Entries[i]; e.Attr.Nlink == 0 {
			n.router.Suggest(e.Attr.Ino, e.At)
		} else {
			n.router.Learn(e.Attr.Ino, a.Partition)
		}
	}
	return a.Entries, DirState{versionOf(a.Partition, a.AsOf) + before, a.Number}, nil
}

// listing returns the answer to a query of all entries of a directory with fewer than limit entries, if the
// cache knows them.
func (n *Names) listing(ctx context.Context, dir posix.Ino, limit uint64) (a route.Answer, ok bool) {
	at, err := n.router.At(dir)
	if err != nil {
		return a, false
	}
	a.Partition = at
	freed := freedBy(n.router.delegations)
	if a.Entries, a.Number, a.Seen, ok = n.leases.listing(ctx, dir, limit); !ok {
		return a, false
	}
	n.router.delegations.hide(meta.OpReadDir, &a)
	if freedBy(n.router.delegations) != freed { // the attributes may be older than own changes
		return a, false
	}
	noTicket := func(e meta.Entry) bool { return e.Attr.Nlink > 0 && !n.router.ShowsTicket(e.Attr.Ino) }
	return a, !slices.ContainsFunc(a.Entries, noTicket)
}

// Version distinguishes contents of a directory. As long as it equals the version of ReadDir, this client
// knows of no later update of the directory's partition. The number has no other meaning.
func (n *Names) Version(dir posix.Ino) uint64 {
	at, err := n.router.At(dir)
	if err != nil {
		return 0
	}
	return versionOf(at, n.router.Seen(at)) + n.router.delegations.changes()
}

// versionOf combines a partition and its vector entry in one number. The numbers of different partitions
// differ, because a directory may move.
func versionOf(partition uint16, seen ask.Seen) uint64 {
	const spread = 0x9e3779b97f4a7c15 // so that changes of the count and of the open places do not cancel out
	return (seen.Count<<16 | uint64(partition)) ^ seen.LastOpen()*spread
}

// sighting is the inode of a name as the client saw it at some time.
type sighting struct {
	ino   posix.Ino // 0: the name was absent
	mode  posix.Mode
	nlink uint32
}

// note remembers the inode of a name; a zero child means that the name is absent.
func (n *Names) note(at Name, child *posix.Attr) {
	n.seen.Put(at, sighting{child.Ino, child.Mode, child.Nlink})
}

// named is a name with its inode, and the partitions of the directory and of the inode.
type named struct {
	dir   uint16
	known bool       // child is known, from a query or from memory
	child posix.Attr // zero: the name is absent; from memory only Ino, Mode and Nlink are set
	at    uint16     // partition of child
}

// away reports whether the name has an inode in another partition than the directory.
func (n *named) away() bool { return n.child.Ino != 0 && n.at != n.dir }

// look queries the inode of a name. It returns ENOENT if there is none.
func (n *Names) look(ctx context.Context, at Name) (named, error) {
	for try := 1; ; try++ {
		a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpLookup, Ino: at.Dir, Name: at.Name}, route.Inode(at.Dir))
		if err != nil {
			if err == posix.ENOENT {
				n.leases.found(at, &a, nil)
				n.note(at, &posix.Attr{})
			}
			return named{dir: a.Partition, known: err == posix.ENOENT}, err
		}
		if n.leases.found(at, &a, &a.Attr) && try < maxRereads {
			continue
		}
		child := a.Attr
		if child.Nlink > 0 {
			n.router.Learn(child.Ino, a.Partition)
			n.note(at, &child)
			return named{a.Partition, true, child, a.Partition}, nil
		}
		n.router.Suggest(child.Ino, uint16(a.Number))
		there, err := n.router.Query(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: child.Ino}, route.Inode(child.Ino))
		if err == nil {
			n.leases.described(&there)
			n.note(at, &there.Attr)
			return named{a.Partition, true, there.Attr, there.Partition}, nil
		}
		if !errors.Is(err, posix.ESTALE) || try == maxRereads {
			return named{}, err
		}
		// It has lost this name meanwhile, and all others: look again.
	}
}

// remembered returns the inode of a name from the client's memory, without a query.
func (n *Names) remembered(at Name) (found named, err error) {
	if found.dir, err = n.router.At(at.Dir); err != nil {
		return found, err
	}
	var s sighting
	if s, found.known = n.seen.Get(at); s.ino != 0 {
		found.child = posix.Attr{Ino: s.ino, Mode: s.mode, Nlink: s.nlink}
		found.at, err = n.router.At(s.ino)
	}
	return found, err
}

// find queries the partitions of inodes, and remembers them.
func (n *Names) find(ctx context.Context, inodes ...posix.Ino) error {
	for _, i := range inodes {
		if _, err := n.attr(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// placing is the rule of a directory for new inodes, with the attributes of the directory.
type placing struct {
	rule meta.Rule
	dir  posix.Attr
}

// askPlacing queries the rule and the attributes of a directory. It remembers them if the directory has a
// rule.
func (n *Names) askPlacing(ctx context.Context, dir posix.Ino) (placing, error) {
	a, err := n.router.Query(ctx, &meta.Command{Op: meta.OpRule, Ino: dir}, route.Inode(dir))
	if err != nil {
		return placing{}, err
	}
	rule, err := meta.DecodeRule(a.Data)
	if err != nil {
		return placing{}, err
	}
	n.rules.Drop(dir)
	if !rule.IsZero() {
		n.rules.Put(dir, placing{rule, a.Attr})
	}
	return placing{rule, a.Attr}, nil
}
