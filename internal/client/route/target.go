package route

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Target is the destination of a command, made by Inode, Partition, Parties or Among.
type Target struct {
	ino       posix.Ino // 0: the command goes to partition, wherever its inodes are
	partition uint16    // the partition that receives the request
	parties   []uint16  // of an update of several partitions: all parties, sorted
	nearest   bool      // the nearest of parties receives the request
	fresh     bool
	named     bool   // the query names the client's session
	session   uint64 // 0: the update may be sent under any session
}

// Inode returns the partition in which an inode is. The router searches for it.
func Inode(ino posix.Ino) Target { return Target{ino: ino} }

// Partition returns a partition, wherever the inodes of the command are.
func Partition(id uint16) Target { return Target{partition: id} }

// Parties returns the partitions of an update. The partition asked coordinates it and answers. all may have
// duplicates.
func Parties(asked uint16, all ...uint16) Target {
	all = append(all, asked)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 1 {
		return Partition(asked)
	}
	return Target{partition: asked, parties: all}
}

// Among is like Parties, with the nearest party as the coordinator; preferred wins a tie.
func Among(preferred uint16, all ...uint16) Target {
	t := Parties(preferred, all...)
	t.nearest = t.Several()
	return t
}

// Several reports whether t has more than one partition.
func (t Target) Several() bool { return len(t.parties) > 0 }

// Fresh makes a query see all updates, of all clients, that ended before the query began (C3).
func (t Target) Fresh() Target {
	t.fresh = true
	return t
}

// AsSession makes a query name the client's session, if there is one, because sessions own locks.
func (t Target) AsSession() Target {
	t.named = true
	return t
}

// Under restricts an update to one session of its partition. If the client has another session there, the
// update returns EREMOTE. It is for commands with ids that are valid under one session only.
func (t Target) Under(session uint64) Target {
	t.session = session
	return t
}

// Answer is a result and its origin.
type Answer struct {
	meta.Result
	Partition uint16   // the partition that answered
	Session   uint64   // number of the session that AsSession named; 0: none
	Seen      ask.Seen // number of commands of the partition that the replica had executed
	// AsOf is a state that the answer includes. While the client has seen no more of the partition (Seen of
	// Router), it knows nothing newer than the answer.
	AsOf ask.Seen

	Refused bool // the replica does not support the request, or the client may not make it
	Held    bool // the client has answered itself, for objects that it holds exclusively
}
