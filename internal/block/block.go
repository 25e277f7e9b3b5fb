package block

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// ID names a block for ever.
type ID = posix.BlockID

// MaxSize is the largest block in bytes. The smallest has one byte.
const MaxSize = 1 << 20

// LastID is the highest id: Range(ctx, ID{}, LastID) gives all blocks.
var LastID = ID(bytes.Repeat([]byte{0xff}, len(ID{})))

// Store keeps blocks. Blocks never change: Put twice is Put once. All methods may be
// called by many goroutines at once, and give the context's error if it ends first.
// Package blocktest has the suite that every Store passes.
type Store interface {
	// Put stores data, of 1 to MaxSize bytes, and returns when it is as durable as
	// this store makes it. It does not keep data. ErrNoSpace, ErrConflict and
	// ErrUnavailable are told apart from other errors.
	Put(ctx context.Context, id ID, data []byte) error
	// Get gives the verified bytes of a block, in into[:0] if they fit its capacity,
	// else in memory that nobody may change: others may have been given the same. Whatever
	// into held is lost, also on an error: ErrNotFound, ErrCorrupt, ErrUnavailable or another.
	Get(ctx context.Context, id ID, into []byte) ([]byte, error)
	// Delete removes blocks; those that are not there are skipped.
	Delete(ctx context.Context, ids []ID) error
	// Range gives the ids from from to to, both included, in ascending order. Blocks
	// put or deleted meanwhile may be missed. An error is the last thing it yields.
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

// CorruptError says which copy of a block is bad. It is ErrCorrupt to errors.Is.
type CorruptError struct {
	ID     ID
	File   string
	Offset int64 // of the record in File
	Cause  error // what the disk said; nil if the checksum is wrong
}

// Error names the block and where its copy is.
func (e *CorruptError) Error() string {
	cause := "checksum mismatch"
	if e.Cause != nil {
		cause = e.Cause.Error()
	}
	return fmt.Sprintf("block %v is corrupt at %s offset %d: %s", e.ID, e.File, e.Offset, cause)
}

// Is makes e an ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap gives the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

// checkSize refuses what is not a block.
func checkSize(id ID, data []byte) error {
	if len(data) == 0 || len(data) > MaxSize {
		return fmt.Errorf("block %v of %d bytes: a block has 1 to %d", id, len(data), MaxSize)
	}
	return nil
}

// castagnoli is the polynomial that processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the id too, so that the bytes of another block are not good bytes.
func checksum(id ID, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, data)
}
