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
	parties   []uint16  // of an update of several partitions: all of them, sorted
	nearest   bool      // the nearest party receives the request
	fresh     bool
	named     bool   // the query names the session
	session   uint64 // 0: the update may be sent under any session
}

// Inode is the partition where an inode is. The router searches for it.
func Inode(ino posix.Ino) Target { return Target{ino: ino} }

// Partition is a partition, wherever the inodes of the command are.
func Partition(id uint16) Target { return Target{partition: id} }

// Parties are the partitions of an update; asked coordinates it and answers. all may contain duplicates.
func Parties(asked uint16, all ...uint16) Target {
	all = append(all, asked)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 1 {
		return Partition(asked)
	}
	return Target{partition: asked, parties: all}
}

// Among is Parties with the nearest party as the coordinator; preferred wins a tie.
func Among(preferred uint16, all ...uint16) Target {
	t := Parties(preferred, all...)
	t.nearest = t.Several()
	return t
}

// Several reports whether t has more than one partition.
func (t Target) Several() bool { return len(t.parties) > 0 }

// Fresh makes a query see all updates that ended before it began, of all clients (C3).
func (t Target) Fresh() Target {
	t.fresh = true
	return t
}

// AsSession makes a query name the client's session, if there is one: locks are owned by sessions.
func (t Target) AsSession() Target {
	t.named = true
	return t
}

// Under restricts an update to one session of its partition, by the session's number: EREMOTE if the client
// has another session there. The command then contains ids that are valid only under this session, or only
// once.
func (t Target) Under(session uint64) Target {
	t.session = session
	return t
}

// Answer is a result with its origin.
type Answer struct {
	meta.Result
	Partition uint16   // the partition that has answered
	Session   uint64   // the number of the session that AsSession named; 0: none
	Seen      ask.Seen // the commands that the replica had executed of its partition
	// AsOf is a state of the partition that the answer certainly includes: as long as the client has seen no
	// more (Seen of Router), it knows nothing newer than the answer.
	AsOf ask.Seen

	Refused bool // the replica does not know the request, or the client may not make it
	Held    bool // the client has answered, for objects that it holds exclusively
}
