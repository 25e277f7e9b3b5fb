package wal

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/globalfs/globalfs/internal/durable"
)

// Durability is the kind of failure that an acknowledged batch survives.
type Durability int

// The durabilities. Sync is the default.
const (
	Sync   Durability = iota // a power loss: fdatasync before Append returns
	OS                       // the death of the process: written to the kernel
	Memory                   // nothing: no file is written or read
)

// Options of a log.
type Options struct {
	Durability Durability
	// Ahead is the number of zero bytes written, with Sync, behind a batch that does not fit into earlier
	// zeros. The next batches overwrite them, and their syncs need not write the length of the file and the
	// places of its blocks. 0: none.
	Ahead int
	// Boot is the identity of the running kernel, such as its boot id: batches written under the same one are
	// there, also if they were not synced. Empty: unknown.
	Boot string

	// open opens a segment; nil: os.OpenFile. Tests lose writes here.
	open opener
}

// file is the set of methods of a segment that the log writes.
type file interface {
	io.WriterAt
	io.Closer
	SyncData() error
	Truncate(size int64) error
}

// opener opens a segment for writing.
type opener func(path string, flag int) (file, error)

// osFile is a file of the operating system.
type osFile struct{ *os.File }

// SyncData makes the bytes and the length of the file durable, but not its times.
func (f osFile) SyncData() error { return durable.SyncData(f.File) }

func openFile(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	return osFile{f}, err
}

// ErrClosed is the error of all methods of a closed log.
var ErrClosed = errors.New("write-ahead log is closed")

// Log is an open log. Its methods must not be called concurrently.
type Log struct {
	dir        string
	durability Durability
	open       opener
	unlock     func() error
	repaired   int64
	ahead      int
	boot       uint64   // see mark
	mark       *os.File // nil with Memory
	noted      [markSize]byte

	file   file // the segment that is the log; nil with Memory
	header segmentHeader
	offset int64  // behind the last acknowledged batch
	number uint64 // of that batch
	zeros  int64  // up to here the file has zeros behind offset
	synced uint64 // of the last batch that survives a loss of power

	appended bool
	unsynced bool   // batches that a loss of power would take
	failed   error  // the first error of Append, or ErrClosed: nothing is appended any more
	buffer   []byte // for the next batch
}

// keepBuffer is the size of an encoded batch up to which its memory is used again.
const keepBuffer = 4 << 20

// Open opens the log in a directory, which it makes if it is missing. Another process must not have it open.
// A torn end is cut, see Repaired; other damage is a CorruptError.
func Open(dir string, opts Options) (_ *Log, err error) {
	l := &Log{dir: dir, durability: opts.Durability, ahead: opts.Ahead, boot: bootOf(opts.Boot), open: opts.open}
	if l.durability == Memory {
		return l, nil
	}
	if l.open == nil {
		l.open = openFile
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("write-ahead log: %w", err)
	}
	if l.unlock, err = lock(dir); err != nil {
		return nil, fmt.Errorf("write-ahead log: %w", err)
	}
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("write-ahead log: %w", err), l.Close())
	}
	return l, nil
}

// Repaired returns the number of bytes of unacknowledged batches that Open has cut.
func (l *Log) Repaired() int64 { return l.repaired }

// Replay returns all records from the last checkpoint on, in order, before the first Append. The bytes are
// the caller's. The sequence ends after an error.
func (l *Log) Replay() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		switch {
		case l.failed != nil:
			yield(nil, l.failed)
		case l.appended:
			yield(nil, errors.New("write-ahead log: replay after append"))
		case l.file != nil:
			l.replay(yield)
		}
	}
}

func (l *Log) replay(yield func([]byte, error) bool) {
	path := l.path(l.header.number)
	r, err := openReader(path)
	if err != nil {
		yield(nil, err)
		return
	}
	defer r.close()
	for r.offset < l.offset {
		at := r.offset
		payload, err := r.next()
		if err != nil {
			yield(nil, &CorruptError{path, at, err.Error()})
			return
		}
		for record, ok := range split(payload) {
			if !ok {
				yield(nil, &CorruptError{path, at, "a batch does not consist of records"})
				return
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// Append adds a batch and returns once it is as durable as configured. With checkpoint, records[0] replaces
// all earlier records. After an error (it wraps the error of the system, such as ENOSPC) the log takes no
// more batches, and holds the acknowledged ones. The log does not keep the slice records.
func (l *Log) Append(records [][]byte, checkpoint bool) error {
	switch {
	case l.failed != nil:
		return l.failed
	case len(records) == 0:
		return nil
	}
	l.appended = true
	if l.durability == Memory {
		return nil
	}
	var err error
	if checkpoint {
		err = l.begin(l.header.number+1, flagCheckpoint, records)
	} else {
		err = l.extend(records)
	}
	if err != nil {
		l.failed = fmt.Errorf("write-ahead log %s: %w", l.dir, err)
	}
	return l.failed
}

// Synchronous reports whether Append waits for the disk.
func (l *Log) Synchronous() bool { return l.durability == Sync }

// extend appends a batch to the present segment.
func (l *Log) extend(records [][]byte) error {
	b, err := appendBatch(l.buffer[:0], l.header.seed(), l.number+1, records)
	if err != nil {
		return err
	}
	if cap(b) <= keepBuffer {
		l.buffer = b
	}
	err = l.write(b)
	if err == nil && l.durability == Sync {
		err = l.file.SyncData()
	}
	// The written part of the batch was not acknowledged.
	if err != nil {
		return errors.Join(err, l.file.Truncate(l.offset))
	}
	l.offset += int64(len(b))
	l.number++
	if l.unsynced = l.durability != Sync; !l.unsynced {
		l.synced = l.number
	}
	return l.note()
}

// write writes a batch behind the last one, and zeros behind it if they are used up.
func (l *Log) write(b []byte) error {
	end := l.offset + int64(len(b))
	if l.ahead > 0 && l.durability == Sync && end > l.zeros {
		padded := slices.Concat(b, make([]byte, l.ahead))
		if _, err := l.file.WriteAt(padded, l.offset); err == nil {
			l.zeros = end + int64(l.ahead)
			return nil
		}
		if err := l.file.Truncate(l.offset); err != nil { // there may be room for the batch alone
			return err
		}
		l.zeros = 0
	}
	_, err := l.file.WriteAt(b, l.offset)
	return err
}

// Sync makes all acknowledged batches survive a loss of power. With Sync they do already, and with Memory
// none does. After an error the log takes no more batches.
func (l *Log) Sync() error {
	if l.failed != nil || !l.unsynced {
		return l.failed
	}
	err := l.file.SyncData()
	if err == nil {
		l.unsynced, l.synced = false, l.number
		err = l.note()
	}
	if err != nil {
		l.failed = fmt.Errorf("write-ahead log %s: %w", l.dir, err)
	}
	return l.failed
}

// Position names a batch of a log. The positions of a log only grow.
type Position struct {
	Segment uint64 `json:"segment"`
	Batch   uint64 `json:"batch"` // in the segment
}

// Compare orders positions as batches are appended.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Segment, other.Segment), cmp.Compare(p.Batch, other.Batch))
}

// Durable returns the position of the last batch that survives a loss of power. It is zero with Memory.
func (l *Log) Durable() Position { return Position{l.header.number, l.synced} }

// begin makes a new segment the log. The segment is durable, for any durability of batches, before an older
// one is deleted.
func (l *Log) begin(number uint64, flags uint32, records [][]byte) error {
	h := segmentHeader{salt: newSalt(), number: number, flags: flags}
	b, batches := h.encode(), uint64(0)
	if len(records) > 0 {
		var err error
		if b, err = appendBatch(b, h.seed(), 1, records); err != nil {
			return err
		}
		batches = 1
	}
	path := l.path(number)
	f, err := l.create(path, b)
	if err != nil {
		return err
	}
	old, oldNumber := l.file, l.header.number
	l.file, l.header, l.offset, l.number, l.unsynced, l.zeros = f, h, int64(len(b)), batches, false, 0
	l.synced = batches
	if err := l.note(); old == nil || err != nil {
		return err
	}
	return errors.Join(old.Close(), os.Remove(l.path(oldNumber)))
}

// create writes a file that is durable when it returns, or not there.
func (l *Log) create(path string, content []byte) (file, error) {
	f, err := l.open(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = errors.Join(f.SyncData(), durable.SyncDir(l.dir))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

// Close ends the use of the log. Acknowledged batches stay as durable as they are.
func (l *Log) Close() error {
	if errors.Is(l.failed, ErrClosed) {
		return nil
	}
	l.failed = ErrClosed
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	if l.mark != nil {
		errs = append(errs, l.mark.Close())
	}
	if l.unlock != nil {
		errs = append(errs, l.unlock())
	}
	return errors.Join(errs...)
}

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
