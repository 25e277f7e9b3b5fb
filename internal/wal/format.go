package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/globalfs/globalfs/internal/varint"
)

const (
	magic             = "GFSWAL1\n"
	segmentHeaderSize = 32
	batchHeaderSize   = 20

	// MaxBatch is the largest size of one Append, in bytes.
	MaxBatch = 1 << 30

	flagCheckpoint = 1
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	order      = binary.LittleEndian
)

// CorruptError names the place of damage in a log.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("write-ahead log %s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

// segmentHeader begins a segment.
type segmentHeader struct {
	salt   uint64 // random
	number uint64
	flags  uint32
}

func (h segmentHeader) encode() []byte {
	b := make([]byte, 0, segmentHeaderSize)
	b = append(b, magic...)
	b = order.AppendUint64(b, h.salt)
	b = order.AppendUint64(b, h.number)
	b = order.AppendUint32(b, h.flags)
	return order.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// seed returns the checksum of the salt; the checksums of batch headers continue from it.
func (h segmentHeader) seed() uint32 {
	return crc32.Checksum(order.AppendUint64(nil, h.salt), castagnoli)
}

func decodeSegmentHeader(b []byte) (h segmentHeader, ok bool) {
	if len(b) < segmentHeaderSize || !bytes.HasPrefix(b, []byte(magic)) {
		return h, false
	}
	const crc = segmentHeaderSize - 4
	h = segmentHeader{order.Uint64(b[8:]), order.Uint64(b[16:]), order.Uint32(b[24:])}
	return h, order.Uint32(b[crc:]) == crc32.Checksum(b[:crc], castagnoli) && h.flags <= flagCheckpoint
}

// batchHeader begins a batch.
type batchHeader struct {
	length  uint32
	number  uint64
	payload uint32 // crc
}

// put encodes h into the first bytes of b.
func (h batchHeader) put(b []byte, seed uint32) {
	order.PutUint32(b[4:], h.length)
	order.PutUint64(b[8:], h.number)
	order.PutUint32(b[16:], h.payload)
	order.PutUint32(b, headerCRC(b, seed))
}

func decodeBatchHeader(b []byte, seed uint32) (h batchHeader, ok bool) {
	h = batchHeader{order.Uint32(b[4:]), order.Uint64(b[8:]), order.Uint32(b[16:])}
	return h, h.length <= MaxBatch && order.Uint32(b) == headerCRC(b, seed)
}

func headerCRC(b []byte, seed uint32) uint32 {
	return crc32.Update(seed, castagnoli, b[4:batchHeaderSize])
}

// appendBatch encodes the number-th batch of a segment.
func appendBatch(b []byte, seed uint32, number uint64, records [][]byte) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, batchHeaderSize)...)
	for _, r := range records {
		b = varint.AppendBytes(b, r)
	}
	payload := b[start+batchHeaderSize:]
	if len(payload) > MaxBatch {
		return nil, fmt.Errorf("a batch of %d bytes is longer than %d", len(payload), MaxBatch)
	}
	batchHeader{uint32(len(payload)), number, crc32.Checksum(payload, castagnoli)}.put(b[start:], seed)
	return b, nil
}

// split returns the records of a payload, and false for malformed bytes.
func split(payload []byte) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		r := varint.NewReader(payload)
		for r.Len() > 0 {
			record := r.Bytes()
			if !yield(record, r.Err() == nil) || r.Err() != nil {
				return
			}
		}
	}
}
