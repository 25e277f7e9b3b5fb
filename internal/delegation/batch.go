package delegation

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// MaxOps bounds the operations of a batch.
const MaxOps = 256

// Op is an operation of a log: a change of covered objects, or the return of a directory.
type Op struct {
	Command meta.Command // with the time of the change, and in Child the number of a new inode
	Return  posix.Ino    // not 0: the directory to return
}

// Append appends the encoding of o.
func (o *Op) Append(b []byte) []byte {
	b = varint.AppendUint(b, o.Return)
	if o.Return != 0 {
		return b
	}
	return varint.AppendBytes(b, o.Command.Append(nil))
}

func readOp(r *varint.Reader) (o Op, err error) {
	if o.Return = posix.Ino(r.Uint64()); o.Return != 0 || r.Err() != nil {
		return o, r.Err()
	}
	command := r.Bytes()
	if r.Err() != nil {
		return o, r.Err()
	}
	if o.Command, err = meta.DecodeCommand(command); err == nil && !canDelegate(o.Command.Op) {
		err = fmt.Errorf("operation %d is not for a batch", o.Command.Op)
	}
	return o, err
}

// canDelegate reports whether a log may have an operation.
func canDelegate(op meta.Op) bool {
	switch op {
	case meta.OpMknod, meta.OpLink, meta.OpUnlink, meta.OpRmdir, meta.OpRename, meta.OpSetAttr, meta.OpWrite,
		meta.OpFallocate, meta.OpSetXattr, meta.OpRemoveXattr:
		return true
	}
	return false
}

// Batch is a part of a log.
type Batch struct {
	Log   uint64
	First uint64 // number of the first operation, from 1
	Ops   []Op
}

// Append appends the encoding of x.
func (x *Batch) Append(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(b, x.Log), x.First)
	b = varint.AppendUint(b, uint64(len(x.Ops)))
	for i := range x.Ops {
		b = x.Ops[i].Append(b)
	}
	return b
}

// DecodeBatch reads a batch that Append has written; its slices alias b.
func DecodeBatch(b []byte) (Batch, error) {
	r := varint.NewReader(b)
	x := Batch{Log: r.Uint64(), First: r.Uint64()}
	n := r.Count()
	if r.Err() == nil && (n > MaxOps || x.First == 0 || x.Log == 0) {
		r.Fail()
	}
	for ; n > 0 && r.Err() == nil; n-- {
		o, err := readOp(r)
		if err != nil {
			return Batch{}, fmt.Errorf("batch: %w", err)
		}
		x.Ops = append(x.Ops, o)
	}
	if err := r.Done(); err != nil {
		return Batch{}, fmt.Errorf("batch: %w", err)
	}
	return x, nil
}

// Done is the answer to a batch.
type Done struct {
	Next    uint64     // the operation of the log to be executed next
	Stopped bool       // the log is not executed any more:
	Code    posix.Code // the operation Next has this outcome; OK: its objects are not covered
	// OnDisk is a place of the partition's order: the disks of a majority of the replicas have everything up
	// to it. 0: not known. The recorded answer to a repeated batch does not have it.
	OnDisk uint64
}

// Append appends the encoding of d.
func (d *Done) Append(b []byte) []byte {
	b = varint.AppendUint(varint.AppendUint(b, d.Next), varint.Bit(d.Stopped))
	b = append(b, byte(d.Code))
	if d.OnDisk != 0 {
		b = varint.AppendUint(b, d.OnDisk)
	}
	return b
}

// DecodeDone reads an answer that Append has written. It ignores further bytes: a newer replica may send
// more.
func DecodeDone(b []byte) (Done, error) {
	r := varint.NewReader(b)
	d := Done{Next: r.Uint64(), Stopped: r.Uint(1) == 1, Code: posix.Code(r.Uint8())}
	if r.Len() > 0 {
		d.OnDisk = r.Uint64()
	}
	if r.Err() != nil {
		return Done{}, fmt.Errorf("answer to a batch: %w", r.Err())
	}
	return d, nil
}
