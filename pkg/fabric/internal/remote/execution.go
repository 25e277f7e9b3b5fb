package remote

import (
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// maxRefused bounds the queues of a connection that are broken. A peer that is not broken has far fewer.
const maxRefused = 4096

// Execution applies the operations of one connection of a peer to the regions of the target, one after the
// other.
type Execution struct {
	peer    fabric.NodeID
	regions *Regions
	refused map[fabric.RegionID]bool // queues that execute nothing until a reset
	// Of the write that is being executed:
	op     fabric.Op
	region *Region
	status fabric.Status
	length int
	done   int     // bytes written, or refused
	carry  [8]byte // the begin of a word that ends in the next piece
	held   int     // bytes of carry
}

// NewExecution begins with the first operation of a connection of a peer.
func NewExecution(peer fabric.NodeID, regions *Regions) *Execution {
	return &Execution{peer: peer, regions: regions, refused: map[fabric.RegionID]bool{}}
}

// target returns the region of an operation, or nil and the reason.
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

// refuse breaks a queue.
func (x *Execution) refuse(id fabric.RegionID) error {
	if x.refused[id] = true; len(x.refused) > maxRefused {
		return fmt.Errorf("node %d has more than %d broken queues: it is broken", x.peer, maxRefused)
	}
	return nil
}

// Reset makes a queue usable.
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

// Begin begins a write. Piece takes its data, and End ends it.
func (x *Execution) Begin(op *fabric.Op, length int) {
	x.op, x.length, x.done, x.held = *op, length, 0, 0
	if x.region, x.status = x.target(op, length); length == 0 {
		x.write(nil)
	}
}

// Piece takes the next piece of the data of a write, also of a refused one. All pieces together have the
// length of Begin. Each piece looks at the rights. Pieces may end anywhere: a word that the write covers is
// written at once (fabric M2).
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
		cut = len(piece) // of a word that the write does not cover
	}
	x.write(piece[:cut])
	x.held = copy(x.carry[:], piece[cut:])
}

// write writes the next bytes, if the peer may.
func (x *Execution) write(piece []byte) {
	if x.status == fabric.OK && !x.region.write(x.peer, x.op.At+x.done, piece) {
		x.status = fabric.Denied
	}
	x.done += len(piece)
}

// End ends a write. landed is for the application if the write was executed completely and notifies. An error
// ends the connection.
func (x *Execution) End() (status fabric.Status, landed fabric.Landed, err error) {
	if x.status != fabric.OK {
		return x.status, landed, x.refuse(x.op.Region)
	}
	return fabric.OK, fabric.Landed{From: x.peer, Region: x.op.Region, At: x.op.At, Length: x.done, Note: x.op.Note}, nil
}

// ExecuteHere executes the operations that a node has posted to itself. written takes the end of each write
// that was executed.
func (o *Peer) ExecuteHere(x *Execution, incarnation uint64, written func(notify bool, landed fabric.Landed)) {
	for _, p := range o.Take() {
		a := Answer{Incarnation: incarnation}
		var data []byte
		switch p.Kind {
		case fabric.Reset:
			x.Reset(p.Region)
		case fabric.Read:
			a.Status, data, _ = x.Read(&p.Op, p.Length) // a node does not guard against itself
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
