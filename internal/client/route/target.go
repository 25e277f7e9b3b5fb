package route

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Target says where a command goes. It is made by Inode, Partition or Parties.
type Target struct {
	ino       posix.Ino // 0: the command goes to partition, wherever its inodes are
	partition uint16    // the one that is asked
	parties   []uint16  // of an update of several partitions: all of them, sorted
	nearest   bool      // the nearest party is asked
	fresh     bool
	named     bool   // the query names the session
	session   uint64 // 0: the update may be sent under any session
}

// Inode is the partition where an inode is. The router searches for it.
func Inode(ino posix.Ino) Target { return Target{ino: ino} }

// Partition is a partition, wherever the inodes of the command are.
func Partition(id uint16) Target { return Target{partition: id} }

// Parties are the partitions of an update, of which asked coordinates it and answers. They may be named
// repeatedly.
func Parties(asked uint16, all ...uint16) Target {
	all = append(all, asked)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 1 {
		return Partition(asked)
	}
	return Target{partition: asked, parties: all}
}

// Among are Parties of which the router asks the nearest; if several are equally near, then preferred.
func Among(preferred uint16, all ...uint16) Target {
	t := Parties(preferred, all...)
	t.nearest = t.Several()
	return t
}

// Several reports whether t has more than one partition.
func (t Target) Several() bool { return len(t.parties) > 0 }

// Fresh makes a query see all that ended anywhere before it began (C3).
func (t Target) Fresh() Target {
	t.fresh = true
	return t
}

// AsSession makes a query name the client's session, if there is one: locks are owned by sessions.
func (t Target) AsSession() Target {
	t.named = true
	return t
}

// Under restricts an update to one session of the partition that is asked, by its number: EREMOTE if the
// client has another one there. The command holds something that is good only under this session, or only
// once.
func (t Target) Under(session uint64) Target {
	t.session = session
	return t
}

// Answer is a result, and where it is from.
type Answer struct {
	meta.Result
	Partition uint16   // the partition that has answered
	Session   uint64   // the number of the session that AsSession named; 0: none
	Seen      ask.Seen // what the replica had executed of its partition
	// AsOf is what the answer surely includes of its partition: as long as the client has seen no more (Seen
	// of Router), nothing that it knows of is newer than the answer.
	AsOf ask.Seen
}
