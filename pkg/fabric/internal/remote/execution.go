package remote

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// maxRefused is the maximum number of broken queues of a connection. Only a faulty peer has so many.
const maxRefused = 4096

// Execution applies the operations of one connection of a peer to the regions of the target, one after the
// other.
type Execution struct {
	peer    fabric.NodeID
	regions *Regions
	refused map[fabric.RegionID]bool // queues that execute nothing until a reset
	// The state of the current write:
	op     fabric.Op
	region *Region
	status fabric.Status
	length int
	done   int     // bytes that were written or refused
	carry  [8]byte // the first bytes of a word whose other bytes come with the next piece
	held   int     // the number of bytes in carry
}

// NewExecution returns the state for a new connection of a peer.
func NewExecution(peer fabric.NodeID, regions *Regions) *Execution {
	return &Execution{peer: peer, regions: regions, refused: map[fabric.RegionID]bool{}}
}

// target returns the region of an operation. If the operation must be refused, it returns nil and the reason.
func (x *Execution) target(op *fabric.Op, length int) (*Region, fabric.Status) {
	if x.refused[op.Region] {
		return nil, fabric.Flushed
	}
	r := x.regions.region(op.Region)
	if r == nil || op.At+length > len(r.bytes) {
		return nil, fabric.Denied
	}
	return r, fabric.OK
}

// refuse marks a queue as broken. An error means that the connection has too many broken queues.
func (x *Execution) refuse(id fabric.RegionID) error {
	if x.refused[id] = true; len(x.refused) > maxRefused {
		return fmt.Errorf("node %d has more than %d broken queues: it is broken", x.peer, maxRefused)
	}
	return nil
}

// Reset makes a broken queue usable again.
func (x *Execution) Reset(id fabric.RegionID) { delete(x.refused, id) }

// Read executes a read. The data is a copy. An error ends the connection.
func (x *Execution) Read(op *fabric.Op, length int) (status fabric.Status, data []byte, err error) {
	r, status := x.target(op, length)
	if r != nil {
		if data, ok := r.read(x.peer, op.At, length); ok {
			return fabric.OK, data, nil
		}
		status = fabric.Denied
	}
	return status, nil, x.refuse(op.Region)
}

// Begin begins a write. Pass its data to Piece, and then call End.
func (x *Execution) Begin(op *fabric.Op, length int) {
	x.op, x.length, x.done, x.held = *op, length, 0, 0
	if x.region, x.status = x.target(op, length); length == 0 {
		x.write(nil)
	}
}

// Piece executes the next piece of the data of a write. A refused write also needs all its pieces. The pieces
// together have the length that was passed to Begin. The rights are checked for each piece. A piece may end
// inside a word: a word that the write covers completely is still written in one step (fabric M2).
func (x *Execution) Piece(piece []byte) {
	if x.held > 0 {
		n := copy(x.carry[x.held:], piece)
		piece = piece[n:]
		if x.held += n; x.held < len(x.carry) && x.done+x.held < x.length {
			return
		}
		x.write(x.carry[:x.held])
		x.held = 0
	}
	cut := len(piece)
	if end := x.done + len(piece); end < x.length {
		cut -= (x.op.At + end) % len(x.carry)
	}
	if cut < 0 {
		cut = len(piece) // the piece is part of a word that the write does not cover completely
	}
	x.write(piece[:cut])
	x.held = copy(x.carry[:], piece[cut:])
}

// write writes the next bytes if the peer has the right.
func (x *Execution) write(piece []byte) {
	if x.status == fabric.OK && !x.region.write(x.peer, x.op.At+x.done, piece) {
		x.status = fabric.Denied
	}
	x.done += len(piece)
}

// End ends a write. landed is the notification for the application, if the status is OK and the write
// notifies. An error ends the connection.
func (x *Execution) End() (status fabric.Status, landed fabric.Landed, err error) {
	if x.status != fabric.OK {
		return x.status, landed, x.refuse(x.op.Region)
	}
	return fabric.OK, fabric.Landed{From: x.peer, Region: x.op.Region, At: x.op.At, Length: x.done, Note: x.op.Note}, nil
}

// ExecuteHere executes the operations that a node has posted to itself. It calls written after each executed
// write.
func (o *Peer) ExecuteHere(x *Execution, incarnation uint64, written func(notify bool, landed fabric.Landed)) {
	for _, p := range o.Take() {
		a := Answer{Incarnation: incarnation}
		var data []byte
		switch p.Kind {
		case fabric.Reset:
			x.Reset(p.Region)
		case fabric.Read:
			a.Status, data, _ = x.Read(&p.Op, p.Length) // maxRefused does not apply to the node itself
		default:
			x.Begin(&p.Op, len(p.Data))
			if len(p.Data) > 0 {
				x.Piece(p.Data)
			}
			var landed fabric.Landed
			if a.Status, landed, _ = x.End(); a.Status == fabric.OK {
				written(p.Notify, landed)
			}
		}
		o.Answered(a, data)
	}
}
