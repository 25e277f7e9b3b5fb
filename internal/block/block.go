package block

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// ID identifies a block for ever.
type ID = posix.BlockID

// MaxSize is the maximum length of a block in bytes. The minimum is one byte.
const MaxSize = posix.MaxBlock

// LastID is the highest id: Range(ctx, ID{}, LastID) yields all blocks.
var LastID = ID(bytes.Repeat([]byte{0xff}, len(ID{})))

// Block is the content of a block with its id and checksum. New makes one.
type Block struct {
	ID   ID
	Sum  uint32 // Sum(ID, Data)
	Data []byte // 1 to MaxSize bytes, which must not be changed

	frame []byte // see Frame; nil: not made yet
}

// frameOffset is the offset of the data in a frame.
const frameOffset = 1 + len(ID{}) + 4

// framePut is the first byte of each frame: the number of the put in the requests of a region.
const framePut = 1

// New makes a block of a copy of data. The copy and the checksum are all that a put costs in the process that
// makes it: all stores that the block passes use both.
func New(id ID, data []byte) Block {
	b := Block{ID: id, Sum: Sum(id, data), Data: data}
	b.frame = b.Frame()
	b.Data = b.frame[frameOffset:]
	return b
}

// Frame returns the request that puts the block in a region: the byte 1, the id, the checksum (little endian)
// and the data. A block of New has one. For other blocks it is built anew. It must not be changed.
func (b *Block) Frame() []byte {
	if b.frame != nil {
		return b.frame
	}
	made := Block{ID: b.ID, Sum: b.Sum, frame: append(noFrame[:frameOffset:frameOffset], b.Data...)}
	made.putHead()
	return made.frame
}

// putHead writes the bytes before the data into the frame.
func (b *Block) putHead() {
	b.frame[0] = framePut
	copy(b.frame[1:], b.ID[:])
	binary.LittleEndian.PutUint32(b.frame[frameOffset-4:], b.Sum)
}

// CheckSize returns an error if the block has no data or more than MaxSize bytes.
func (b *Block) CheckSize() error {
	if len(b.Data) == 0 || len(b.Data) > MaxSize {
		return fmt.Errorf("block %v of %d bytes: a block has 1 to %d", b.ID, len(b.Data), MaxSize)
	}
	return nil
}

// IsIntact reports whether the checksum is that of the id and the data.
func (b *Block) IsIntact() bool { return b.Sum == Sum(b.ID, b.Data) }

// castagnoli is the polynomial that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of a block: CRC32C over its id and its data. It covers the id too, so that the
// bytes of another block are not good bytes.
func Sum(id ID, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, data)
}

// Store keeps blocks. A block never changes: a repeated Put of the same block has no further effect. All
// methods may be called concurrently. They return the error of ctx if ctx ends first. Package blocktest has
// the conformance suite of all stores.
type Store interface {
	// Put stores a block and returns when it is as durable as this store makes it. The store may keep b.Data.
	// It need not verify b.Sum: it refuses a block with a wrong one, or stores a bad copy, which Get does not
	// return and a later Put replaces. Callers decide on ErrNoSpace, ErrConflict and ErrUnavailable.
	Put(ctx context.Context, b Block) error
	// Get returns the verified bytes of a block, in into[:0] if they fit its capacity, else in memory that
	// must not be changed, since other callers may share it. The content of into is lost, also on an error:
	// ErrNotFound, ErrCorrupt, ErrUnavailable or another.
	Get(ctx context.Context, id ID, into []byte) ([]byte, error)
	// Delete removes blocks. It ignores ids that are not stored.
	Delete(ctx context.Context, ids []ID) error
	// Range yields the ids from from to to, both included, in ascending order. It may miss blocks that are
	// put or deleted during the iteration. If it yields an error, that is the last element.
	Range(ctx context.Context, from, to ID) iter.Seq2[ID, error]
}

// Errors that callers decide on. They survive the wire.
var (
	ErrNotFound    = errors.New("block not found")
	ErrCorrupt     = errors.New("block is corrupt")
	ErrNoSpace     = errors.New("no space for blocks")
	ErrConflict    = errors.New("block id is taken by other bytes")
	ErrForbidden   = errors.New("not allowed")
	ErrUnavailable = errors.New("too few storage servers answer")
	ErrClosed      = errors.New("block store is closed")
)

// CorruptError describes a bad copy of a block. errors.Is(e, ErrCorrupt) is true.
type CorruptError struct {
	ID     ID
	File   string
	Offset int64 // of the record in File
	Cause  error // the error of the disk; nil if the checksum is wrong
}

// Error names the block and the place of the copy.
func (e *CorruptError) Error() string {
	cause := "checksum mismatch"
	if e.Cause != nil {
		cause = e.Cause.Error()
	}
	return fmt.Sprintf("block %v is corrupt at %s offset %d: %s", e.ID, e.File, e.Offset, cause)
}

// Is makes e an ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }
