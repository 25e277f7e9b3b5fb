package fabric

import (
	"fmt"
	"time"
)

// MaxRegion is the maximum size of a region and of an operation, in bytes.
const MaxRegion = 1 << 30

// NodeID identifies a node of a fabric. 0 is no node.
type NodeID uint32

// RegionID identifies a region of a node.
type RegionID uint32

// Rights are the permissions of one node for a region of another node. They combine with |.
type Rights uint8

// The rights.
const (
	Readable Rights = 1 << iota
	Writable
)

// Kind is the kind of an operation.
type Kind uint8

const (
	// Write copies Data into the region.
	Write Kind = iota
	// Read copies Length bytes of the region into Completion.Data.
	Read
	// Reset makes a broken queue usable again. When it completes, all operations posted before it have
	// ended.
	Reset
	kinds
)

// Op is an operation on the memory of another node, or of the node itself.
type Op struct {
	Token  uint64 // chosen by the initiator; the completion has the same token
	Kind   Kind
	Peer   NodeID
	Region RegionID
	At     int    // offset in the region, in bytes
	Length int    // number of bytes to read
	Data   []byte // bytes to write; the provider keeps the slice until the completion, and does not change it
	Notify bool   // the target gets a Landed event after the complete write
	Note   uint32 // passed to the target in Landed
}

// Validate returns the reason why op cannot be posted, or nil. The target checks the place and the rights.
func (op *Op) Validate() error {
	switch {
	case op.Kind >= kinds:
		return fmt.Errorf("fabric: unknown kind %d of operation %d: use Write, Read or Reset", op.Kind, op.Token)
	case op.Peer == 0:
		return fmt.Errorf("fabric: operation %d has no peer: name the node that it is for", op.Token)
	case op.At < 0 || op.Length < 0 || op.At > MaxRegion || op.Length > MaxRegion || len(op.Data) > MaxRegion:
		return fmt.Errorf("fabric: operation %d covers %d bytes at %d: a region has at most %d bytes",
			op.Token, max(op.Length, len(op.Data)), op.At, MaxRegion)
	}
	return nil
}

// Size returns the number of bytes that op reads or writes.
func (op *Op) Size() int {
	switch op.Kind {
	case Write:
		return len(op.Data)
	case Read:
		return op.Length
	}
	return 0
}

// Status is the result of an operation.
type Status uint8

// The statuses; Q3 to Q6 of the package's documentation define their guarantees.
const (
	OK Status = iota
	Denied
	Lost
	Flushed
)

// String returns the name of s.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", s)
}

var statusNames = [...]string{OK: "ok", Denied: "denied", Lost: "lost", Flushed: "flushed"}

// Completion reports the end of an operation that this node has posted.
type Completion struct {
	Token  uint64
	Kind   Kind
	Peer   NodeID
	Region RegionID
	Status Status
	Data   []byte // the result of a Read with status OK; the receiver owns it
	// Incarnation of the target, for a Reset with status OK. A target that has restarted, and so has lost
	// its memory, has another incarnation.
	Incarnation uint64
}

// Landed reports that a write with Notify was executed in the memory of this node.
type Landed struct {
	From   NodeID
	Region RegionID
	At     int
	Length int
	Note   uint32
}

// Events are the events at a node since the last Poll.
type Events struct {
	Completions []Completion
	Landed      []Landed
}

// Reset empties e for reuse.
func (e *Events) Reset() {
	clear(e.Completions)
	e.Completions, e.Landed = e.Completions[:0], e.Landed[:0]
}

// Any reports whether there are events.
func (e *Events) Any() bool { return len(e.Completions)+len(e.Landed) > 0 }

// Memory is the owner's view of a region. Load and Store panic if the range is not within the region.
type Memory interface {
	Size() int
	// Load copies bytes from offset at. They may contain a part of a write that is being executed (M2).
	Load(at int, into []byte)
	// Store writes bytes at offset at, as a write of the owner.
	Store(at int, data []byte)
}

// Endpoint is the access of one node to a fabric. No node, including the owner, has rights to a new region.
// All methods except Poll and Wait may be called concurrently; Poll and Wait must be called by one goroutine
// at a time.
type Endpoint interface {
	// Register creates a region. Its size in bytes must be divisible by 8.
	Register(id RegionID, size int) (Memory, error)
	// Grant adds rights of a peer to a region.
	Grant(id RegionID, peer NodeID, rights Rights) error
	// Revoke removes rights of a peer. When it returns, the rights are gone (M3).
	Revoke(id RegionID, peer NodeID, rights Rights) error
	// Post begins operations. An error is about the first invalid operation; those before it have begun.
	Post(ops ...Op) error
	// Poll appends the events since the last Poll to e. It does not wait.
	Poll(e *Events)
	// Wait returns when Poll would return events, when a region of this node may have changed, or after a
	// time.
	Wait(atMost time.Duration)
	// Close removes the node from the fabric. Its regions are lost.
	Close() error
}
