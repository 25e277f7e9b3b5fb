package fabric

import (
	"fmt"
	"time"
)

// MaxRegion is the size of the largest region, in bytes. It also bounds an operation.
const MaxRegion = 1 << 30

// NodeID names a node of a fabric. 0 is nobody.
type NodeID uint32

// RegionID names a region among those of its node.
type RegionID uint32

// Rights are the permissions of a node for a region of another node.
type Rights uint8

// The rights, which combine with |.
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
	// Reset makes a broken queue usable. Operations that were posted before it have ended when it completes.
	Reset
	kinds
)

// Op is an operation on the memory of another node, or of the node itself.
type Op struct {
	Token  uint64 // chosen by the initiator; the completion has the same
	Kind   Kind
	Peer   NodeID
	Region RegionID
	At     int    // the first byte
	Length int    // to read
	Data   []byte // to write; the provider keeps it until the completion, and does not change it
	Notify bool   // a complete write raises Landed at the target
	Note   uint32 // for Landed
}

// Validate says why op cannot be posted, or nil. The target checks place and rights.
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

// Size is how many bytes op covers.
func (op *Op) Size() int {
	switch op.Kind {
	case Write:
		return len(op.Data)
	case Read:
		return op.Length
	}
	return 0
}

// Status is how an operation ended.
type Status uint8

// The statuses; the package's documentation gives the promise of each of them.
const (
	OK Status = iota
	Denied
	Lost
	Flushed
)

// String gives the name of s.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status %d", s)
}

var statusNames = [...]string{OK: "ok", Denied: "denied", Lost: "lost", Flushed: "flushed"}

// Completion is the end of an operation of this node.
type Completion struct {
	Token  uint64
	Kind   Kind
	Peer   NodeID
	Region RegionID
	Status Status
	Data   []byte // of a Read with status OK; the receiver owns it
	// Incarnation of the target, of a Reset with status OK. A target that has restarted, and so has lost its
	// memory, has another one.
	Incarnation uint64
}

// Landed says that a write with Notify was executed in the memory of this node.
type Landed struct {
	From   NodeID
	Region RegionID
	At     int
	Length int
	Note   uint32
}

// Events are the events at a node since it last looked.
type Events struct {
	Completions []Completion
	Landed      []Landed
}

// Reset empties e for reuse.
func (e *Events) Reset() {
	clear(e.Completions)
	e.Completions, e.Landed = e.Completions[:0], e.Landed[:0]
}

// Any reports whether something has happened.
func (e *Events) Any() bool { return len(e.Completions)+len(e.Landed) > 0 }

// Memory is a region as its owner sees it. Load and Store panic if the range is not in the region.
type Memory interface {
	Size() int
	// Load copies the content at a place. It may contain a part of a write that is being executed (M2).
	Load(at int, into []byte)
	// Store changes the content as a write of the owner.
	Store(at int, data []byte)
}

// Endpoint is one node's part of a fabric. All nodes, the node itself included, have no rights to a new
// region. Its methods may be called by several goroutines, Poll and Wait by one at a time.
type Endpoint interface {
	// Register makes a region of a size that is divisible by 8.
	Register(id RegionID, size int) (Memory, error)
	// Grant gives a peer rights to a region, beside those that the peer has.
	Grant(id RegionID, peer NodeID, rights Rights) error
	// Revoke takes rights away. When it returns they are gone (M3).
	Revoke(id RegionID, peer NodeID, rights Rights) error
	// Post begins operations. An error is about the first one that is not valid; those before it have begun.
	Post(ops ...Op) error
	// Poll appends the events since the last Poll to e. It does not wait.
	Poll(e *Events)
	// Wait returns when Poll would find something, when something may have changed in a region of this node,
	// or after a time.
	Wait(atMost time.Duration)
	// Close ends the node. Its regions are gone.
	Close() error
}
