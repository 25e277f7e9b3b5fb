package remote

import (
	"encoding/binary"
	"fmt"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// The sizes of the fixed parts of an operation and of an answer.
const (
	HeaderSize = 1 + 1 + 4 + 8 + 8 + 4
	AnswerSize = 1 + 8 + 4
)

const notifyFlag = 1

// Decode reads the header of an operation. It returns the length of the data separately, because the header
// does not contain the data of a write.
func Decode(h *[HeaderSize]byte) (op fabric.Op, length int, err error) {
	at, size := binary.LittleEndian.Uint64(h[6:]), binary.LittleEndian.Uint64(h[14:])
	if at > fabric.MaxRegion || size > fabric.MaxRegion || fabric.Kind(h[0]) > fabric.Reset || h[1]&^notifyFlag != 0 {
		return op, 0, fmt.Errorf("operation of kind %d with flags %d covers %d bytes at %d: it is broken or of another version", h[0], h[1], size, at)
	}
	return fabric.Op{
		Kind: fabric.Kind(h[0]), Notify: h[1] == notifyFlag, Region: fabric.RegionID(binary.LittleEndian.Uint32(h[2:])),
		At: int(at), Note: binary.LittleEndian.Uint32(h[22:]),
	}, int(size), nil
}

// Encode appends the header of an operation.
func Encode(b []byte, op *fabric.Op) []byte {
	flags := byte(0)
	if op.Notify {
		flags = notifyFlag
	}
	b = append(b, byte(op.Kind), flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(op.Region))
	b = binary.LittleEndian.AppendUint64(b, uint64(op.At))
	b = binary.LittleEndian.AppendUint64(b, uint64(op.Size()))
	return binary.LittleEndian.AppendUint32(b, op.Note)
}

// Answer is the fixed part of the target's answer to an operation.
type Answer struct {
	Status      fabric.Status
	Incarnation uint64
	Length      int // the length of the following data in bytes
}

// Encode returns the bytes of a.
func (a Answer) Encode() (b [AnswerSize]byte) {
	b[0] = byte(a.Status)
	binary.LittleEndian.PutUint64(b[1:], a.Incarnation)
	binary.LittleEndian.PutUint32(b[9:], uint32(a.Length))
	return b
}

// DecodeAnswer reads the fixed part of an answer. Peer.Expects checks it.
func DecodeAnswer(b *[AnswerSize]byte) Answer {
	return Answer{
		Status: fabric.Status(b[0]), Incarnation: binary.LittleEndian.Uint64(b[1:]), Length: int(binary.LittleEndian.Uint32(b[9:])),
	}
}
