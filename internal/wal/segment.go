package wal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// reader reads a segment batch by batch.
type reader struct {
	file     *os.File
	buffered *bufio.Reader
	size     int64 // of the file
	header   segmentHeader
	seed     uint32 // of header
	offset   int64  // behind the last whole batch
	number   uint64 // of that batch

	synced    uint64 // the last batch that is known to be on disk
	syncedEnd int64  // up to here the file is known to be on disk
}

// errTorn reports that a segment ends early, or is damaged.
type errTorn struct{ reason string }

func (e errTorn) Error() string { return e.reason }

// openReader opens a segment; errTorn if it has no good header. On an error nothing is left open.
func openReader(path string) (_ *reader, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &reader{file: f, buffered: bufio.NewReaderSize(f, 1<<20), size: info.Size(), offset: segmentHeaderSize}
	var b [segmentHeaderSize]byte
	if _, err := io.ReadFull(r.buffered, b[:min(segmentHeaderSize, r.size)]); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var ok bool
	if r.header, ok = decodeSegmentHeader(b[:]); !ok {
		return nil, errTorn{"the header of the segment is not whole"}
	}
	r.seed = r.header.seed()
	return r, nil
}

func (r *reader) close() error { return r.file.Close() }

// next returns the payload of the next batch; io.EOF at the end, errTorn if no whole batch is at offset.
func (r *reader) next() ([]byte, error) {
	left := r.size - r.offset
	if left == 0 {
		return nil, io.EOF
	}
	if left < batchHeaderSize {
		return nil, errTorn{"the header of a batch is cut short"}
	}
	var b [batchHeaderSize]byte
	if _, err := io.ReadFull(r.buffered, b[:]); err != nil {
		return nil, r.wrap(err)
	}
	h, ok := decodeBatchHeader(b[:], r.seed)
	switch {
	case !ok || h.number != r.number+1:
		return nil, errTorn{"the header of a batch is wrong"}
	case int64(h.length) > left-batchHeaderSize:
		return nil, errTorn{"a batch is cut short"}
	}
	payload := make([]byte, h.length)
	if _, err := io.ReadFull(r.buffered, payload); err != nil {
		return nil, r.wrap(err)
	}
	if crc32.Checksum(payload, castagnoli) != h.payload {
		return nil, errTorn{"the checksum of a batch is wrong"}
	}
	r.offset += batchHeaderSize + int64(h.length)
	r.number = h.number
	if r.number <= r.synced {
		r.syncedEnd = r.offset
	}
	return payload, nil
}

func (r *reader) wrap(err error) error {
	return fmt.Errorf("%s, near offset %d: %w", r.file.Name(), r.offset, err)
}

// isWritten reports whether the file has bytes other than zeros behind offset.
func (r *reader) isWritten() (bool, error) {
	buffer := make([]byte, 64<<10)
	for at := r.offset; at < r.size; {
		n, err := r.file.ReadAt(buffer[:min(int64(len(buffer)), r.size-at)], at)
		if err != nil {
			return false, r.wrap(err)
		}
		if len(bytes.TrimLeft(buffer[:n], "\x00")) > 0 {
			return true, nil
		}
		at += int64(n)
	}
	return false, nil
}

// later searches from offset, where no whole batch begins, for the header of a batch after the next one, and
// gives its place; 0 if there is none, as behind a torn end.
func (r *reader) later() (int64, error) {
	at := r.offset
	in := bufio.NewReaderSize(io.NewSectionReader(r.file, at, r.size-at), 1<<20)
	for ; ; at++ {
		b, err := in.Peek(batchHeaderSize)
		if errors.Is(err, io.EOF) {
			return 0, nil
		} else if err != nil {
			return 0, r.wrap(err)
		}
		if h, ok := decodeBatchHeader(b, r.seed); ok && h.number > r.number+1 {
			return at, nil
		}
		_, _ = in.Discard(1) // is buffered
	}
}
