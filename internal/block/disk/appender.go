package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block/segfile"

	"github.com/globalfs/globalfs/internal/durable"
)

// appender writes the last segment. It is used under Store.committing.
type appender struct {
	dir    string
	roll   uint64        // size in bytes at which a segment is full
	noSync bool          // no write is made durable before Store.Sync and close
	file   *os.File      // nil: the next record starts segment end.segment
	end    segfile.Place // place of the next record
	broken bool          // a write or sync failed: nothing more is appended to file
	dirty  bool          // file has records that are not durable

	unsynced  []*os.File // with noSync: earlier segments with records that are not durable
	syncError error      // of the first failed sync of unsynced; nil: none has failed
}

// maxUnsynced bounds the descriptors in appender.unsynced.
const maxUnsynced = 8

var errBroken = errors.New("an earlier write to this segment failed")

// begin starts a batch. A batch is in one segment: begin leaves a full or broken segment.
func (a *appender) begin() error {
	if a.file == nil || !a.broken && a.end.Offset < a.roll {
		return nil
	}
	return a.leave()
}

// leave ends the segment: the next record starts another one. The segment is made durable first, so that only
// the last segment can have a torn tail. With noSync it is not made durable: a power loss before Store.Sync
// may tear the tails of several segments, and the torn records are bad copies (S3). Records that compaction
// moves are always durable.
func (a *appender) leave() error {
	if a.file == nil {
		return nil
	}
	if !a.broken && !a.noSync {
		if err := a.sync(); err != nil {
			return err
		}
	}
	if a.dirty && a.noSync {
		if err := a.setAside(); err != nil {
			return err
		}
	} else {
		_ = a.file.Close() // durable, or not needed
	}
	a.file, a.broken, a.dirty = nil, false, false
	a.end = segfile.Place{Segment: a.end.Segment + 1}
	return nil
}

// pending is a record that is to be appended.
type pending struct {
	segfile.Record
	data  []byte
	moved bool // by compaction
	head  [segfile.HeaderSize]byte
	at    segfile.Place // its place, once written
	err   error         // the reason why it is not written
}

// write appends records with one call to the kernel. It cuts off incomplete records and sets their errors. If
// the cut fails too, the segment is broken.
func (a *appender) write(records []*pending) {
	if len(records) == 0 {
		return
	}
	if err := a.ready(); err != nil {
		for _, r := range records {
			r.err = err
		}
		return
	}
	pieces := make([][]byte, 0, 2*len(records))
	for _, r := range records {
		r.head = r.Header()
		pieces = append(pieces, r.head[:], r.data)
	}
	a.dirty = true
	written, err := writePieces(a.file, pieces, a.end.Offset)
	for _, r := range records {
		if size := uint64(segfile.HeaderSize + len(r.data)); written >= size {
			written -= size
			r.at = a.end
			a.end.Offset += size
			continue
		}
		written, r.err = 0, spaceError(err)
	}
	if err != nil {
		a.broken = a.file.Truncate(int64(a.end.Offset)) != nil
	}
}

// ready prepares the segment for a write: it makes the file if there is none.
func (a *appender) ready() error {
	if a.file == nil {
		if err := a.create(); err != nil {
			return err
		}
	}
	if a.broken {
		return errBroken
	}
	return nil
}

// maxPieces is the maximum number of pieces of one call to the kernel. A call ends when it has at least
// maxWrite bytes: longer calls cost twice the processor time for each byte.
const (
	maxPieces = 1024
	maxWrite  = 1 << 20
)

// nextPieces returns the first ones of pieces: those that one call to the kernel writes.
func nextPieces(pieces [][]byte) [][]byte {
	size := 0
	for i, p := range pieces {
		if size += len(p); size >= maxWrite || i+1 == maxPieces {
			return pieces[:i+1]
		}
	}
	return pieces
}

// writePieces writes pieces one behind the other, and returns the number of bytes written.
func writePieces(file *os.File, pieces [][]byte, at uint64) (written uint64, err error) {
	for len(pieces) > 0 {
		n, err := unix.Pwritev(int(file.Fd()), nextPieces(pieces), int64(at+written))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return written, fmt.Errorf("write %s: %w", file.Name(), err)
		}
		written += uint64(n)
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n > 0 {
			pieces[0] = pieces[0][n:]
		}
	}
	return written, nil
}

// create makes the segment of a.end.
func (a *appender) create() error {
	path := filepath.Join(a.dir, segfile.Name(a.end.Segment))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return spaceError(fmt.Errorf("new segment: %w", err))
	}
	a.file = file
	if err := durable.SyncDir(a.dir); err != nil {
		a.broken = true
		return spaceError(err)
	}
	return nil
}

// sync makes all appended records durable. After an error the kernel may have dropped the pages: the segment
// is broken.
func (a *appender) sync() error {
	if a.file == nil {
		return nil
	}
	if err := durable.SyncData(a.file); err != nil {
		a.broken = true
		err = fmt.Errorf("sync %s: %w", a.file.Name(), err)
		if a.noSync {
			a.syncError = err // its records were acknowledged
		}
		return spaceError(err)
	}
	a.dirty = false
	return nil
}

// setAside keeps the file open for syncAll.
func (a *appender) setAside() error {
	if len(a.unsynced) == maxUnsynced {
		if err := a.syncUnsynced(); err != nil {
			return err
		}
	}
	a.unsynced = append(a.unsynced, a.file)
	return nil
}

// forget closes a removed segment that was set aside: an open descriptor would keep its space.
func (a *appender) forget(segment uint32) {
	a.unsynced = slices.DeleteFunc(a.unsynced, func(f *os.File) bool {
		gone := filepath.Base(f.Name()) == segfile.Name(segment)
		if gone {
			_ = f.Close() // its content is not needed
		}
		return gone
	})
}

// syncUnsynced makes the segments that were set aside durable. After a failure the kernel may have dropped
// pages, and a later sync would not report it. So each call fails from then on, until the store is opened
// again.
func (a *appender) syncUnsynced() error {
	for len(a.unsynced) > 0 {
		if err := durable.SyncData(a.unsynced[0]); err != nil {
			a.syncError = fmt.Errorf("sync %s: %w", a.unsynced[0].Name(), err)
		}
		_ = a.unsynced[0].Close()
		a.unsynced = a.unsynced[1:]
	}
	return a.syncError
}

// syncAll makes all appended records durable.
func (a *appender) syncAll() error {
	if err := a.syncUnsynced(); err != nil || !a.dirty {
		return err
	}
	return a.sync()
}

// close ends the appender and makes all its writes durable.
func (a *appender) close() error {
	err := a.syncUnsynced()
	if a.file != nil {
		err = errors.Join(err, a.sync(), a.file.Close())
	}
	a.file = nil
	return err
}
