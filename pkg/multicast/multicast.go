package multicast

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Bounds of messages and frames, in bytes. Cores, links and the simulator share them.
const (
	// MaxPayload is the longest payload of a message.
	MaxPayload = 10 << 20
	// MaxFrame is the longest frame that a link carries: room for the longest messages of two cores that
	// share a link.
	MaxFrame = 32 << 20
	// Window is how much may be sent to one peer and not yet be taken by it. A link on which more is sent
	// starts again.
	Window = 64 << 20
)

// GroupID names a group. Groups are disjoint: a process is in exactly one.
type GroupID uint16

// ProcessID names a process, unique over all groups. 0 is nobody.
type ProcessID uint32

// Timestamp is a value of the multicast's logical clock. 0 is before all.
type Timestamp uint64

// MessageID is unique for ever: the sender and a number that the sender never
// uses for another message. Numbers grow, also over restarts: a process that has restarted
// proposes none of its earlier numbers again.
type MessageID struct {
	Sender ProcessID
	Seq    uint64
}

// Compare orders ids by sender, then sequence.
func (id MessageID) Compare(other MessageID) int {
	return cmp.Or(cmp.Compare(id.Sender, other.Sender), cmp.Compare(id.Seq, other.Seq))
}

// String gives "sender.seq".
func (id MessageID) String() string { return fmt.Sprintf("%d.%d", id.Sender, id.Seq) }

// Message is a message to multicast. It is immutable once proposed: cores and drivers share its slices.
type Message struct {
	ID      MessageID
	Dest    []GroupID // sorted, without duplicates, not empty
	Payload []byte
	After   Timestamp // the final timestamp will be higher than this (T 4.4.2)
	Order   Order
	// Durable: when a process delivers the message, the disks of a quorum of each destination group hold it
	// and everything ordered before it in that group, also if other records are not synced (Output.Sync).
	Durable bool
}

// Order is how strongly a message is ordered.
type Order uint8

const (
	// Acyclic is uniform acyclic order: package multicast promises it for all messages.
	Acyclic Order = iota
	// AtomicGlobal adds real time (T 5.2.2, and the package's doc). A protocol that
	// does not offer it refuses such messages.
	AtomicGlobal
)

// Validate says why m cannot be multicast, or nil.
func (m *Message) Validate() error {
	switch {
	case m.ID.Sender == 0:
		return fmt.Errorf("message %v: no sender", m.ID)
	case len(m.Dest) == 0:
		return fmt.Errorf("message %v: no destination group", m.ID)
	case len(m.Payload) > MaxPayload:
		return fmt.Errorf("message %v: %d bytes of payload: at most %d can be sent", m.ID, len(m.Payload), MaxPayload)
	case m.Order > AtomicGlobal:
		return fmt.Errorf("message %v: unknown order %d", m.ID, m.Order)
	}
	for i := 1; i < len(m.Dest); i++ {
		if m.Dest[i-1] >= m.Dest[i] {
			return fmt.Errorf("message %v: destinations %v are not sorted and unique", m.ID, m.Dest)
		}
	}
	return nil
}

// To reports whether g is a destination of m.
func (m *Message) To(g GroupID) bool { return slices.Contains(m.Dest, g) }

// Position is a place in the delivery order of a process: a final timestamp
// with the message id as tie break. The zero Position is before all.
type Position struct {
	Final Timestamp
	ID    MessageID
}

// Compare orders positions as they are delivered.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Final, other.Final), p.ID.Compare(other.ID))
}

// Delivery is a message at its place in the order.
type Delivery struct {
	Message
	Final Timestamp
}

// Position gives the place of d in the order.
func (d *Delivery) Position() Position { return Position{Final: d.Final, ID: d.ID} }

// Group is a multicast group as all processes know it.
type Group struct {
	ID      GroupID
	Members []ProcessID // the first one leads the initial epoch
}

// Quorum is the size of a majority of g.
func (g *Group) Quorum() int { return len(g.Members)/2 + 1 }

// Instant is the time as the driver read it.
type Instant struct {
	Mono time.Duration // since the driver started; never goes back; for deadlines
	Wall int64         // nanoseconds since the Unix epoch; may jump
}

// Frame is the unit that a link carries: the packed messages of one step to one peer. Links are FIFO and lose
// nothing while both ends live.
//
// A frame without Data is not from the peer but about it: the link to this
// peer starts from nothing, because the peer is new or restarted (a higher
// incarnation), or we did, or one of us did not keep up. Frames sent to it before may not have arrived and
// never will; the content that it still needs must be sent again. A link's first event is always such a
// frame.
type Frame struct {
	Peer ProcessID // the sender of a received frame, the receiver of a sent one
	Data []byte
}

// Input is all that is ready at one turn of the driver. Cores keep no reference
// to its slices, but may keep the bytes of Frames, Messages and payloads: the driver
// hands them over.
type Input struct {
	Now      Instant
	Frames   []Frame
	Proposed []Message // to multicast, in this order; the sender is this process
	Covered  Progress  // the state machine holds all deliveries up to here durably; other classes are as before
	Replace  []Replacement
	Lead     bool // this process is to lead its group from now on, at an operator's wish, although nothing is wrong with the present leader
}

// Replacement asks for a change of one member of the group of the process that is asked: New takes the place
// of Old. If Old is 0, New joins the group; if New is 0, Old leaves it. Any member may be asked, and more
// than once.
//
// The new process is a member, and the old one is not, from an agreed point of the group's order on. Old may
// be dead, cut off, or alive and well: until the change is agreed it takes part, and afterwards nothing that
// it says counts (Output.Retired). New must run before the change begins, and must never have been a member
// before; Old must not be the only member. A change that has begun needs a majority of the members before it
// and a majority of those after it, until a majority of the latter knows that it is made. From then on Old is
// not needed.
type Replacement struct{ Old, New ProcessID }

// Reset empties in for reuse.
func (in *Input) Reset() {
	*in = Input{Frames: in.Frames[:0], Proposed: in.Proposed[:0], Replace: in.Replace[:0]}
}

// Output has the effects that one step asks for. There is one gate: Records become durable in order, and only
// then the rest leaves, in order. Only Early does not wait for the Records of its own step.
type Output struct {
	// Records go to the write-ahead log. If Checkpoint is set, the first of them stands
	// for everything recorded before it, which may then be dropped.
	Records    [][]byte
	Checkpoint bool
	// Sync: the Records, and all records before them, must survive a loss of power before the rest leaves. A
	// driver whose log syncs each step need not look at it; one whose log keeps records in memory only
	// ignores it.
	Sync bool
	// Early are frames that promise nothing, in the form of Frames. They may leave before the Records of this
	// step are durable, but not before those of earlier steps. They leave before Frames.
	Early []Frame
	// Frames hold at most one frame a peer, none longer than MaxFrame; content that does not fit leaves with
	// a later step. The process itself is a peer like any other, so that it hears its own acknowledgement
	// only once it is durable.
	Frames     []Frame
	Deliveries []Delivery
	// Safe: nothing at or below it will be delivered after these Deliveries, in any class.
	Safe Timestamp
	// Behind, if not empty: this process needs deliveries up to here that others have forgotten. It must be
	// given the state of another member (Transferable), and stops delivering in these classes until then. The
	// core keeps no reference to it.
	Behind Progress
	// Retired: this process was a member of its group and is none any more. It sends, records and delivers
	// nothing from now on, also after a restart.
	Retired bool
	// Wake asks for a step no later than this on Instant.Mono; 0: only when
	// something happens.
	Wake time.Duration
}

// Reset empties out for reuse. The bytes that it held are not reused.
func (out *Output) Reset() {
	clear(out.Records)
	clear(out.Early)
	clear(out.Frames)
	clear(out.Deliveries)
	*out = Output{Records: out.Records[:0], Early: out.Early[:0], Frames: out.Frames[:0], Deliveries: out.Deliveries[:0]}
}

// Core is one process's part of a protocol: a deterministic function of its
// past inputs. It never blocks and never fails: bad input is dropped and
// counted, a broken invariant panics (package invariant) and stops the process
// before it can do harm.
type Core interface {
	// Replay feeds one record of the write-ahead log to a new core, in order,
	// before the first Step. An error means the record is not one of this core's.
	Replay(record []byte) error
	// Step consumes in and fills out, which the caller has Reset.
	Step(in *Input, out *Output)
}

// Transferable is a Core that can take over the state of another member of its group, when it has
// been away for too long or is new.
type Transferable interface {
	Core
	// State is the state that the other process needs beside the state machine. It fits to the state machine
	// at the moment when everything that has been stepped is durable and applied.
	State() []byte
	// Adopt gives the record that must replace all of this process's records once the state machine is
	// replaced, and the progress of that state machine. Then the process starts anew with both.
	// An error says that this state does not do: take another member's, or the same one's later.
	Adopt(state []byte) (record []byte, at Progress, err error)
}
