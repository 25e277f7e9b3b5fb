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
	// Window is the maximum number of bytes that are sent to one peer and not yet taken by it. If a core
	// sends more, the link restarts and loses the frames on the way (see Frame).
	Window = 64 << 20
)

// GroupID names a group. Groups are disjoint: a process is in exactly one.
type GroupID uint16

// ProcessID identifies a process, uniquely over all groups. 0 is no process.
type ProcessID uint32

// Timestamp is a value of the multicast's logical clock. 0 is below the timestamp of every message.
type Timestamp uint64

// MessageID identifies a message for ever: the sender, and a sequence number that the sender uses for this
// message only. Sequence numbers ascend over the whole life of the sender, restarts included.
type MessageID struct {
	Sender ProcessID
	Seq    uint64
}

// Compare orders ids by sender, and then by sequence number.
func (id MessageID) Compare(other MessageID) int {
	return cmp.Or(cmp.Compare(id.Sender, other.Sender), cmp.Compare(id.Seq, other.Seq))
}

// String returns "sender.seq".
func (id MessageID) String() string { return fmt.Sprintf("%d.%d", id.Sender, id.Seq) }

// Message is a message to multicast. It is immutable once proposed: cores and drivers share its slices.
type Message struct {
	ID      MessageID
	Dest    []GroupID // sorted, without duplicates, not empty
	Payload []byte
	After   Timestamp // the final timestamp is higher than this (T 4.4.2)
	Order   Order
	// Durable: when any process delivers the message, a quorum of each destination group has it on disk,
	// together with everything ordered before it in that group, even if the log syncs no other records
	// (Output.Sync).
	Durable bool
}

// Order is the strength of the order that a message requests.
type Order uint8

const (
	// Acyclic requests uniform acyclic order, which the package promises for all messages.
	Acyclic Order = iota
	// AtomicGlobal also requests that the order respects real time (T 5.2.2, and the package's
	// documentation). A protocol without this order refuses such messages.
	AtomicGlobal
)

// Validate returns the reason why m cannot be multicast, or nil.
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

// Position is a position in the delivery order of a process: the final timestamp, with the message id as the
// tie break. The zero Position is below all positions of messages.
type Position struct {
	Final Timestamp
	ID    MessageID
}

// Compare orders positions in the order of delivery.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Final, other.Final), p.ID.Compare(other.ID))
}

// Delivery is a message with its final timestamp, as a core hands it to the state machine.
type Delivery struct {
	Message
	Final Timestamp
}

// Position returns the position of d in the delivery order.
func (d *Delivery) Position() Position { return Position{Final: d.Final, ID: d.ID} }

// Group is a multicast group in its initial configuration, which all processes know.
type Group struct {
	ID      GroupID
	Members []ProcessID // the first one leads the initial epoch
}

// Quorum returns the size of a majority of g.
func (g *Group) Quorum() int { return len(g.Members)/2 + 1 }

// Instant is one reading of the clocks by the driver.
type Instant struct {
	Mono time.Duration // since the driver started; never goes back; for deadlines
	Wall int64         // nanoseconds since the Unix epoch; may jump
}

// Frame is the unit that a link carries: the packets of one step for one peer. A link delivers frames in the
// order in which they were sent, and loses none while both processes live.
//
// A frame without Data does not come from the peer. It informs the core that the link to the peer has started
// anew, because one of both processes has restarted, or could not keep up with the other. Frames that were
// sent before may be lost, so the core must send again the content that the peer still needs. The first frame
// from each link is of this kind.
type Frame struct {
	Peer ProcessID // the sender of a received frame, the receiver of a sent one
	Data []byte
}

// Input is the input of one step: all events that were ready. A core may keep the bytes of Frames, Messages
// and payloads, which the driver does not use again. It keeps no reference to the slices.
type Input struct {
	Now      Instant
	Frames   []Frame
	Proposed []Message // to multicast, in this order; the sender is this process
	Covered  Progress  // the state machine holds all deliveries up to here durably; classes that are missing are unchanged
	Replace  []Replacement
	Lead     bool // this process is to lead its group from now on, at an operator's wish, although nothing is wrong with the present leader
}

// Replacement requests a change of one member of the own group: New takes the place of Old. If Old is 0, New
// joins the group; if New is 0, Old leaves it. The request may be made at any member, and repeatedly.
//
// The change takes effect at an agreed point of the group's order. Until then Old is a member, whether it
// works or not; afterwards no statement of Old counts (Output.Retired). Requirements: New runs before the
// change begins and was never a member; Old is not the only member.
//
// While a change is under way, progress needs a majority of the old members and a majority of the new ones.
// It ends when a majority of the new members knows that the change is made. From then on Old is not needed.
type Replacement struct{ Old, New ProcessID }

// Reset empties in for reuse.
func (in *Input) Reset() {
	*in = Input{Frames: in.Frames[:0], Proposed: in.Proposed[:0], Replace: in.Replace[:0]}
}

// Output holds the effects that a step requests. There is one gate: the driver makes Records durable in
// order, and only then releases the other fields, in order. Early is the only exception.
type Output struct {
	// Records are appended to the write-ahead log. If Checkpoint is set, the first of them replaces all
	// earlier records, which may then be dropped.
	Records    [][]byte
	Checkpoint bool
	// Sync demands that the Records, and all records before them, survive a loss of power before the rest
	// leaves. A driver with a log that syncs each step may ignore it, and so may a driver with a log in
	// memory.
	Sync bool
	// Early has frames that depend on no record of this step. They may leave before the Records of this step
	// are durable, but not before the Records of earlier steps. They leave before Frames.
	Early []Frame
	// Frames has at most one frame for each peer, none longer than MaxFrame. Content that does not fit
	// leaves in a later step. The process itself is also a peer: it receives its own acknowledgement only
	// after the acknowledgement is durable.
	Frames     []Frame
	Deliveries []Delivery
	// Safe is a bound: no later step delivers a message with a final timestamp at or below it, in any class.
	Safe Timestamp
	// Behind, if not empty, means that other processes have forgotten deliveries up to these positions which
	// this process needs. The process then needs the state of another member (Transferable), and delivers
	// nothing in these classes until it has it. The core keeps no reference to Behind.
	Behind Progress
	// Retired means that this process has left its group for good. From now on, also after a restart, it
	// sends, records and delivers nothing.
	Retired bool
	// Wake is the latest time of the next step, on Instant.Mono; 0: only after an event.
	Wake time.Duration
}

// Reset empties out for reuse. The bytes of records and frames are not reused.
func (out *Output) Reset() {
	clear(out.Records)
	clear(out.Early)
	clear(out.Frames)
	clear(out.Deliveries)
	*out = Output{Records: out.Records[:0], Early: out.Early[:0], Frames: out.Frames[:0], Deliveries: out.Deliveries[:0]}
}

// Core is the part of a protocol that runs in one process: a deterministic function of its past inputs. A
// step never blocks and never fails. It drops and counts bad input. A broken invariant panics (package
// invariant), which stops the process before it does harm.
type Core interface {
	// Replay feeds one record of the write-ahead log to a new core. All records are replayed in order before
	// the first Step. An error means that this core has not written the record.
	Replay(record []byte) error
	// Step consumes in and fills out. The caller has called out.Reset.
	Step(in *Input, out *Output)
}

// Transferable is a Core that can take over the state of another member of its group. A process needs this if
// it is new, or was absent for so long that the others have forgotten messages which it needs.
type Transferable interface {
	Core
	// State returns the state of the core that the other process needs beside the state machine. It matches
	// the state machine only when all steps so far are durable and applied.
	State() []byte
	// Adopt takes a state of another member. It returns the record that must replace all records of this
	// process once the state machine is replaced, and the progress of that state machine. Then the process
	// restarts with both. After an error the caller tries the state of another member, or a later state of
	// the same one.
	Adopt(state []byte) (record []byte, at Progress, err error)
}
