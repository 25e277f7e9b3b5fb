package journal

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/varint"
)

// ID identifies a log.
type ID struct {
	Partition uint16
	Session   uint64
	Number    uint64
}

// Operation is an operation of a log, with its result.
type Operation struct {
	Number  uint64 // number in its log
	Request uint64 // number of the kernel's request; 0: none
	Op      delegation.Op
	Result  meta.Result
	// Block is the content of the only block of Op, if the block was not stored when Op was appended; nil:
	// all blocks were stored.
	Block []byte
}

// kind is the kind of a record.
type kind uint8

const (
	begun kind = 1 + iota
	operation
	acknowledged
	ended
	blockOperation
)

// record is the content of a record. The block of an operation follows its encoding.
type record struct {
	kind   kind
	id     ID
	number uint64    // only of kind acknowledged
	op     Operation // only of kind operation
}

func (r *record) append(b []byte) []byte {
	b = append(b, byte(r.kind))
	b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, r.id.Partition), r.id.Session), r.id.Number)
	switch r.kind {
	case operation, blockOperation:
		b = varint.AppendUint(varint.AppendUint(b, r.op.Number), r.op.Request)
		b = varint.AppendBytes(b, r.op.Op.Append(nil))
		b = varint.AppendBytes(b, r.op.Result.Append(nil))
	case acknowledged:
		b = varint.AppendUint(b, r.number)
	}
	return b
}

// decode decodes a record. The slices of the result alias b.
func decode(b []byte) (r record, err error) {
	in := varint.NewReader(b)
	r.kind = kind(in.Uint8())
	r.id = ID{in.Uint16(), in.Uint64(), in.Uint64()}
	switch r.kind {
	case begun, ended:
	case operation, blockOperation:
		r.op.Number, r.op.Request = in.Uint64(), in.Uint64()
		op, result := in.Bytes(), in.Bytes()
		if in.Err() != nil {
			break
		}
		if r.op.Op, err = delegation.DecodeOp(op); err != nil {
			return r, err
		}
		if r.op.Result, err = meta.DecodeResult(result); err != nil {
			return r, err
		}
		if r.kind == blockOperation {
			r.op.Block = in.Rest()
		}
	case acknowledged:
		r.number = in.Uint64()
	default:
		return r, fmt.Errorf("a record of kind %d", r.kind)
	}
	return r, in.Done()
}
