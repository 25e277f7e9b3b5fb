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
	// Checkpoint returns a record that replaces all records handed over before.
	Checkpoint() []byte
	// Leads reports whether this process leads its group.
	Leads() bool
	// Members returns the members of a group, as far as this process knows them.
	Members(g multicast.GroupID) []multicast.ProcessID
}

// Recovered is a Core that is made from a log and a store. Its methods are valid after the replay.
type Recovered interface {
	Core
	// Amnesiac reports whether this process may have lost records, and has no vote until it has caught up.
	Amnesiac() bool
	// Lacks returns a position up to which the store must hold deliveries, since the log does not have them
	// any more, and does not; false: there is none. The process must not go on with such a store.
	Lacks() (at multicast.ClassPosition, lacks bool)
}

// Classifier is a Core with classes that are not the sets of destinations. The class of a message depends
// only on its destinations, which are sorted, and its id: all replicas of all its destinations name it alike.
type Classifier interface {
	Class(dest []multicast.GroupID, id multicast.MessageID) multicast.Class
}

// Grower is a Core that takes in more groups while it runs.
type Grower interface {
	AddGroup(g multicast.Group) error
}

// OneSided is a Core of the own order that works in memory which others write (package fabric).
type OneSided interface {
	// Complete gives the ends of operations for the next step.
	Complete(all []fabric.Completion)
	// Effects adds the changes of rights and the operations of the last step to those of a turn.
	Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op)
	// Leave tells the core that its process is a member of the group no more.
	Leave()
}

// Orders are the two orders of one replica, with the proposals and frames of the current step. Orders have
// one owner.
type Orders struct {
	self    multicast.ProcessID
	group   multicast.GroupID
	own     Core // the order of the partition
	between Core // the order between partitions

	sequence uint64                       // of the newest proposal
	proposed map[multicast.MessageID]bool // proposals of this replica that are not delivered yet

	ownIn, betweenIn   multicast.Input
	ownOut, betweenOut multicast.Output
	early, frames      frames // that do not wait for the records of the step, and that do
	malformed          uint64 // frames
	left               bool   // this process is no member any more in one order at least
	backup             uint64 // the newest backup that this replica has heard of
}

// New returns the orders of process self, a member of group. Proposals are numbered from first on: a process
// that restarts passes a number above all that it used before.
func New(self multicast.ProcessID, group multicast.GroupID, own, between Core, first uint64) *Orders {
	return &Orders{
		self: self, group: group, own: own, between: between, sequence: first,
		proposed: map[multicast.MessageID]bool{}, early: newFrames(), frames: newFrames(),
	}
}

// Leads reports whether this replica leads its partition's own order. The leader does the work that any
// replica could do.
func (o *Orders) Leads() bool { return o.own.Leads() }

// Members returns the replicas of a partition; none if there is no such partition.
func (o *Orders) Members(partition uint16) []multicast.ProcessID {
	return o.between.Members(multicast.GroupID(partition))
}

// AddGroup makes the group of a new partition known to the order between partitions, between two steps.
func (o *Orders) AddGroup(g multicast.Group) error {
	core, grows := o.between.(Grower)
	if !grows {
		return errors.New("the order between partitions takes in no more of them")
	}
	return core.AddGroup(g)
}

// Left reports whether this replica has left its group, in one order at least: the group goes on without it.
func (o *Orders) Left() bool { return o.left }

// HasMember reports whether a process is a member of this replica's group in both orders.
func (o *Orders) HasMember(p multicast.ProcessID) bool {
	return slices.Contains(o.own.Members(o.group), p) && slices.Contains(o.between.Members(o.group), p)
}

// Malformed returns the number of malformed frames since New.
func (o *Orders) Malformed() uint64 { return o.malformed }

// Propose proposes an entry in the partition's own order. Its time is the time of the step.
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

// Delivered notes that a message was delivered.
func (o *Orders) Delivered(id multicast.MessageID) { delete(o.proposed, id) }

// Pending reports whether this replica proposed a message that is not delivered yet. The cores lose no
// proposal, so that a pending message need not be proposed again.
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

// Covered tells both cores up to where the store is durable.
func (o *Orders) Covered(own multicast.Position, between multicast.Progress) {
	o.ownIn.Covered, o.betweenIn.Covered = multicast.UpTo(own), between
}

// Replace asks both cores for replacements.
func (o *Orders) Replace(wanted []multicast.Replacement) {
	o.ownIn.Replace = append(o.ownIn.Replace, wanted...)
	o.betweenIn.Replace = append(o.betweenIn.Replace, wanted...)
}

// Step lets both cores take their step. The output holds the records of both, one frame per peer, another one
// for what leaves early, and the deliveries of both.
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
	out.Sync = o.ownOut.Sync || len(o.betweenOut.Records) > 0 // other partitions hear of all that is recorded there
	out.Deliveries = append(append(out.Deliveries, o.ownOut.Deliveries...), o.betweenOut.Deliveries...)
	out.Safe = o.ownOut.Safe
	if out.Behind = o.ownOut.Behind; len(out.Behind) == 0 {
		out.Behind = o.betweenOut.Behind
	}
	o.left = o.ownOut.Retired || o.betweenOut.Retired
	if core, ok := o.own.(OneSided); ok && o.betweenOut.Retired {
		core.Leave() // it cannot learn that itself
	}
	out.Retired = o.ownOut.Retired && o.betweenOut.Retired // in the other order its acknowledgements may be needed still
	out.Wake = Earliest(o.ownOut.Wake, o.betweenOut.Wake)
}

// Complete gives the own order the ends of operations, before Step.
func (o *Orders) Complete(all []fabric.Completion) {
	if core, ok := o.own.(OneSided); ok {
		core.Complete(all)
	}
}

// Effects adds the changes of rights and the operations of the last step.
func (o *Orders) Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op) {
	if core, ok := o.own.(OneSided); ok {
		return core.Effects(rights, ops)
	}
	return rights, ops
}

// IsBetween reports whether a delivery is of the order between partitions: only its messages have several
// destinations.
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
