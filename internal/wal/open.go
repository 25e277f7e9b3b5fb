package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/durable"
)

const (
	suffix     = ".wal"
	nameDigits = 16
)

func (l *Log) path(number uint64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%0*x%s", nameDigits, number, suffix))
}

// segments returns the numbers of the segments in the directory, newest first.
func (l *Log) segments() ([]uint64, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(name, 16, 64)
		if err != nil || len(name) != nameDigits {
			return nil, fmt.Errorf("%s is not a segment of a write-ahead log", filepath.Join(l.dir, e.Name()))
		}
		numbers = append(numbers, n)
	}
	slices.Reverse(numbers) // ReadDir sorts
	return numbers, nil
}

// recover finds the segment that is the log, cuts its torn end, and deletes the others.
func (l *Log) recover() error {
	numbers, err := l.segments()
	if err != nil {
		return err
	}
	var known *mark
	if l.mark, known, err = openMark(l.dir); err != nil {
		return err
	}
	for i, n := range numbers {
		whole, err := l.adopt(n, i == len(numbers)-1, known)
		if err != nil {
			return err
		}
		if whole {
			return l.dropForGood(slices.Delete(numbers, i, i+1))
		}
	}
	if known != nil {
		return missed(l.path(known.segment), 0, "it was acknowledged, and is damaged or missing")
	}
	if err := l.dropForGood(numbers); err != nil {
		return err
	}
	return l.begin(1, 0, nil)
}

// adopt makes a segment the log. False: a crash happened before the segment became the log; then an older
// segment is the log, or there has never been one.
func (l *Log) adopt(number uint64, oldest bool, known *mark) (bool, error) {
	path := l.path(number)
	r, err := openReader(path)
	var torn errTorn
	if errors.As(err, &torn) {
		return false, l.giveUp(path, number, oldest, torn)
	} else if err != nil {
		return false, err
	}
	defer r.close()
	if r.header.number != number {
		return false, &CorruptError{path, 0, fmt.Sprintf("this is segment %d under the name of another", r.header.number)}
	}
	if known != nil && known.segment == number {
		r.synced = known.synced
	}
	for err == nil {
		_, err = r.next()
	}
	if errors.As(err, &torn) {
		at, err := r.later()
		if err != nil {
			return false, err
		}
		if at != 0 {
			return false, &CorruptError{path, r.offset, fmt.Sprintf("%s, but at offset %d another batch begins", torn.reason, at)}
		}
	} else if !errors.Is(err, io.EOF) {
		return false, err
	}
	if r.header.flags&flagCheckpoint != 0 && r.number == 0 {
		return false, l.giveUp(path, number, oldest, errTorn{"the checkpoint that the log begins with is not whole"})
	}
	if err := known.check(r, l.boot); err != nil {
		return false, err
	}
	return true, l.resume(r)
}

// giveUp skips a segment that a crash may have left, or reports that it cannot be from a crash.
func (l *Log) giveUp(path string, number uint64, oldest bool, torn errTorn) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if oldest && (number != 1 || info.Size() > segmentHeaderSize) {
		return &CorruptError{path, 0, torn.reason + ", and there is no older segment"}
	}
	l.repaired += info.Size()
	return nil
}

// resume opens the segment that r has read, to append behind the last whole batch. Batches behind the mark
// may not be on disk: they are made durable before they are replayed.
func (l *Log) resume(r *reader) error {
	f, err := l.open(r.file.Name(), os.O_WRONLY)
	if err != nil {
		return err
	}
	l.file, l.header, l.offset, l.number = f, r.header, r.offset, r.number
	if r.size != r.offset {
		written, err := r.isWritten()
		if err != nil {
			return err
		}
		if written {
			l.repaired += r.size - r.offset
		}
		if err := f.Truncate(r.offset); err != nil {
			return err
		}
	}
	if err := l.settle(r); err != nil {
		// The first error may be of the writes of an earlier process.
		if err = l.settle(r); err != nil {
			return err
		}
	}
	l.synced = r.number
	return l.note()
}

// settle makes the batches durable that are not known to be on disk.
func (l *Log) settle(r *reader) error {
	if err := l.rewrite(r); err != nil {
		return err
	}
	return l.file.SyncData()
}

// rewrite writes the batches again that are not known to be on disk. If a sync of them has failed, the kernel
// has reported that once, and does not write them any more, although it gives them to readers.
func (l *Log) rewrite(r *reader) error {
	buffer := make([]byte, 1<<20)
	for at := r.syncedEnd; at < r.offset; {
		n, err := r.file.ReadAt(buffer[:min(int64(len(buffer)), r.offset-at)], at)
		if err != nil {
			return r.wrap(err)
		}
		if _, err := l.file.WriteAt(buffer[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// dropForGood deletes segments durably: a newer one that came back after a power loss would take the place of
// the log.
func (l *Log) dropForGood(numbers []uint64) error {
	for _, n := range numbers {
		if err := os.Remove(l.path(n)); err != nil {
			return err
		}
	}
	return durable.SyncDir(l.dir)
}
