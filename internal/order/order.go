package order

import (
	"errors"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is the part of an ordering protocol that runs in this process.
type Core interface {
	multicast.Transferable
	// Checkpoint returns a record that replaces all records that the core has output before.
	Checkpoint() []byte
	// Leads reports whether this process leads its group.
	Leads() bool
	// Members returns the members of a group, as far as this process knows them.
	Members(g multicast.GroupID) []multicast.ProcessID
}

// Recovered is a Core that was restored from a log and a store. Its methods are valid after the replay.
type Recovered interface {
	Core
	// Amnesiac reports whether this process may have lost records. Such a process has no vote until it has
	// caught up.
	Amnesiac() bool
	// Lacks returns a position that the store must have reached and has not reached, because the log does
	// not contain the deliveries up to it any more. If lacks is true, the store does not belong to the log
	// or has lost data, and the process must not continue.
	Lacks() (at multicast.ClassPosition, lacks bool)
}

// Classifier is a Core with classes that are not the sets of destinations. The class of a message depends
// only on its sorted destinations and its id, so all replicas of all destinations compute the same class.
type Classifier interface {
	Class(dest []multicast.GroupID, id multicast.MessageID) multicast.Class
}

// Grower is a Core to which groups can be added while it runs.
type Grower interface {
	AddGroup(g multicast.Group) error
}

// OneSided is a Core of the own order that uses one-sided memory (package fabric).
type OneSided interface {
	// Complete passes the completions of operations to the next step.
	Complete(all []fabric.Completion)
	// Effects appends the changes of rights and the operations of the last step to rights and ops, and
	// returns both.
	Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op)
	// Leave informs the core that its process has left the group.
	Leave()
}

// Orders are the two orders of one replica, with the proposals and frames of the current step. They are not
// safe for concurrent use.
type Orders struct {
	self    multicast.ProcessID
	group   multicast.GroupID
	own     Core // the order of the partition
	between Core // the order between partitions

	sequence uint64                       // the number of the newest proposal
	proposed map[multicast.MessageID]bool // proposals of this replica that are not delivered yet

	ownIn, betweenIn   multicast.Input
	ownOut, betweenOut multicast.Output
	early, frames      frames // early leaves before the records of the step are durable, frames afterwards
	malformed          uint64 // number of malformed frames
	left               bool   // this process has left its group in at least one order
	backup             uint64 // number of the newest backup that this replica knows; 0: none
}

// New returns the orders of process self, a member of group. Proposals are numbered from first on. A process
// that restarts passes a number above all that it has used before.
func New(self multicast.ProcessID, group multicast.GroupID, own, between Core, first uint64) *Orders {
	return &Orders{
		self: self, group: group, own: own, between: between, sequence: first,
		proposed: map[multicast.MessageID]bool{}, early: newFrames(), frames: newFrames(),
	}
}

// Leads reports whether this replica leads the own order of its partition. The leader executes the work that
// needs only one replica.
func (o *Orders) Leads() bool { return o.own.Leads() }

// Members returns the replicas of a partition; none if there is no such partition.
func (o *Orders) Members(partition uint16) []multicast.ProcessID {
	return o.between.Members(multicast.GroupID(partition))
}

// AddGroup adds the group of a new partition to the order between partitions. Call it between two steps.
func (o *Orders) AddGroup(g multicast.Group) error {
	core, grows := o.between.(Grower)
	if !grows {
		return errors.New("the order between partitions takes in no more of them")
	}
	return core.AddGroup(g)
}

// Left reports whether this replica has left its group in at least one order. The group continues without it.
func (o *Orders) Left() bool { return o.left }

// HasMember reports whether a process is a member of this replica's group in both orders.
func (o *Orders) HasMember(p multicast.ProcessID) bool {
	return slices.Contains(o.own.Members(o.group), p) && slices.Contains(o.between.Members(o.group), p)
}

// Malformed returns the number of malformed frames since New.
func (o *Orders) Malformed() uint64 { return o.malformed }

// Propose proposes an entry in the own order of the partition. The time of the entry is the time of the step.
func (o *Orders) Propose(e Entry) multicast.MessageID {
	m := o.message(e)
	m.Dest, m.Durable = []multicast.GroupID{o.group}, e.Durable
	o.ownIn.Proposed = append(o.ownIn.Proposed, m)
	return m.ID
}

// Multicast proposes an entry in the order between partitions. The parties are sorted, and include this
// partition.
func (o *Orders) Multicast(parties []uint16, e Entry) multicast.MessageID {
	m := o.message(e)
	for _, p := range parties {
		m.Dest = append(m.Dest, multicast.GroupID(p))
	}
	o.betweenIn.Proposed = append(o.betweenIn.Proposed, m)
	return m.ID
}

func (o *Orders) message(e Entry) multicast.Message {
	o.sequence++
	e.Time, e.Backup = posix.Time(o.ownIn.Now.Wall), o.backup
	m := multicast.Message{ID: multicast.MessageID{Sender: o.self, Seq: o.sequence}, Payload: e.encode()}
	o.proposed[m.ID] = true
	return m
}

// Delivered records that a message was delivered.
func (o *Orders) Delivered(id multicast.MessageID) { delete(o.proposed, id) }

// Pending reports whether this replica has proposed a message that is not delivered yet. The cores lose no
// proposal, so the caller need not propose it again.
func (o *Orders) Pending(id multicast.MessageID) bool { return o.proposed[id] }

// Class returns the class of a message of the order between partitions.
func (o *Orders) Class(parties []uint16, id multicast.MessageID) multicast.Class {
	dest := make([]multicast.GroupID, len(parties))
	for i, p := range parties {
		dest[i] = multicast.GroupID(p)
	}
	if c, ok := o.between.(Classifier); ok {
		return c.Class(dest, id)
	}
	return multicast.ClassOf(dest)
}

// Covered informs both cores of the positions up to which the store is durable.
func (o *Orders) Covered(own multicast.Position, between multicast.Progress) {
	o.ownIn.Covered, o.betweenIn.Covered = multicast.UpTo(own), between
}

// Replace asks both cores to replace members of the group.
func (o *Orders) Replace(wanted []multicast.Replacement) {
	o.ownIn.Replace = append(o.ownIn.Replace, wanted...)
	o.betweenIn.Replace = append(o.betweenIn.Replace, wanted...)
}

// Step steps both cores. The output has the records and deliveries of both, and for each peer at most one
// frame that waits for the records and one that does not.
func (o *Orders) Step(lead bool, out *multicast.Output) {
	o.ownIn.Lead, o.betweenIn.Lead = lead, lead
	o.ownOut.Reset()
	o.betweenOut.Reset()
	o.own.Step(&o.ownIn, &o.ownOut)
	o.between.Step(&o.betweenIn, &o.betweenOut)
	o.records(out)
	o.early.addAll(o.ownOut.Early, sectionOwn)
	o.early.addAll(o.betweenOut.Early, sectionBetween)
	o.frames.addAll(o.ownOut.Frames, sectionOwn)
	o.frames.addAll(o.betweenOut.Frames, sectionBetween)
	out.Early, out.Frames = o.early.flush(out.Early, o.backup), o.frames.flush(out.Frames, o.backup)
	out.Sync = o.ownOut.Sync || len(o.betweenOut.Records) > 0 // its records are statements to other partitions
	out.Deliveries = append(append(out.Deliveries, o.ownOut.Deliveries...), o.betweenOut.Deliveries...)
	out.Safe = o.ownOut.Safe
	if out.Behind = o.ownOut.Behind; len(out.Behind) == 0 {
		out.Behind = o.betweenOut.Behind
	}
	o.left = o.ownOut.Retired || o.betweenOut.Retired
	if core, ok := o.own.(OneSided); ok && o.betweenOut.Retired {
		core.Leave() // the own order has no other way to learn it
	}
	out.Retired = o.ownOut.Retired && o.betweenOut.Retired // until then its acknowledgements may be needed in the other order
	out.Wake = Earliest(o.ownOut.Wake, o.betweenOut.Wake)
}

// Complete passes completions of one-sided operations to the own order. Call it before Step.
func (o *Orders) Complete(all []fabric.Completion) {
	if core, ok := o.own.(OneSided); ok {
		core.Complete(all)
	}
}

// Effects appends the changes of rights and the one-sided operations of the last step to rights and ops.
func (o *Orders) Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op) {
	if core, ok := o.own.(OneSided); ok {
		return core.Effects(rights, ops)
	}
	return rights, ops
}

// IsBetween reports whether a delivery belongs to the order between partitions: only that order has messages
// with several destinations.
func IsBetween(d *multicast.Delivery) bool { return len(d.Dest) > 1 }

// Earliest returns the smallest of the times that are not 0.
func Earliest(times ...time.Duration) time.Duration {
	var first time.Duration
	for _, t := range times {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}
