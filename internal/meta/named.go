package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// A bound client shows a ticket for each inode that its command names, and gets a ticket for each new inode
// in the answer. Both sides list these inodes with the functions below, so that messages need not repeat the
// numbers. The order of the lists is part of the protocol and is stable.

// NeedsTicket reports whether a bound client needs a ticket to name an inode. Roots of partitions need none,
// because their numbers are public.
func NeedsTicket(ino posix.Ino) bool { return ino != 0 && ino.Counter() != posix.Root.Counter() }

// Named returns the inodes in c that need a ticket. An inode may appear more than once.
func (c *Command) Named() (all []posix.Ino) {
	if c.Op == OpStatFS || c.Op == OpTasks { // about no inode: Ino is not used, or is a place in a list
		return nil
	}
	all = make([]posix.Ino, 0, 2)
	for _, ino := range [...]posix.Ino{c.Ino, c.NewParent, c.Child, c.NewChild} {
		if NeedsTicket(ino) {
			all = append(all, ino)
		}
	}
	for _, chain := range [...][]posix.Ino{c.Chain, c.Back} {
		for _, ino := range chain {
			if NeedsTicket(ino) {
				all = append(all, ino)
			}
		}
	}
	return all
}

// NewInodes returns the inodes in an answer for which the client gets tickets: all that need a ticket, except
// those that the command named. op is the operation of the command. An answer with an error has none: its
// inode may be in a directory that the client may not search.
func NewInodes(op Op, named []posix.Ino, r *Result) (all []posix.Ino) {
	if r.Code != posix.OK {
		return nil
	}
	add := func(ino posix.Ino) {
		if NeedsTicket(ino) && !slices.Contains(named, ino) {
			all = append(all, ino)
		}
	}
	add(r.Attr.Ino)
	for i := range r.Entries {
		add(r.Entries[i].Attr.Ino)
	}
	if op == OpTasks {
		tasks, _ := DecodeTasks(r.Data) // a replica has encoded them
		for i := range tasks {
			add(tasks[i].Dir)
		}
	}
	return all
}
