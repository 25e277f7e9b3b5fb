package block

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// appender writes the last segment. It is used under Segments.committing.
type appender struct {
	dir    string
	roll   uint64   // size in bytes at which a segment is full
	file   *os.File // nil: the next record begins segment end.segment
	end    place    // where the next record goes
	broken bool     // something failed: nothing more is appended to file
}

var errBroken = errors.New("an earlier write to this segment failed")

// begin starts a batch. A batch is in one segment: a full or broken one is left
// here. A full one is made durable first, so that only the last has a torn tail.
func (a *appender) begin() error {
	if a.file == nil || !a.broken && a.end.offset < a.roll {
		return nil
	}
	if !a.broken {
		if err := a.sync(); err != nil {
			return err
		}
	}
	_ = a.file.Close() // durable, or not needed
	a.file, a.broken = nil, false
	a.end = place{segment: a.end.segment + 1}
	return nil
}

// append writes one record and says where. On an error the segment is as before, or
// broken.
func (a *appender) append(r *record, data []byte) (place, error) {
	if a.file == nil {
		if err := a.create(); err != nil {
			return place{}, err
		}
	}
	if a.broken {
		return place{}, errBroken
	}
	header := r.encode()
	at := a.end
	_, err := a.file.WriteAt(header[:], int64(at.offset))
	if err == nil {
		_, err = a.file.WriteAt(data, int64(at.offset)+recordHeader)
	}
	if err != nil {
		cut := a.file.Truncate(int64(at.offset))
		a.broken = cut != nil
		return place{}, spaceError(errors.Join(err, cut))
	}
	a.end.offset += recordHeader + uint64(len(data))
	return at, nil
}

// create makes the segment of a.end.
func (a *appender) create() error {
	path := filepath.Join(a.dir, segmentName(a.end.segment))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return spaceError(fmt.Errorf("new segment: %w", err))
	}
	a.file = file
	if err := syncDir(a.dir); err != nil {
		a.broken = true
		return spaceError(err)
	}
	return nil
}

// sync makes what was appended durable. After an error the kernel may have dropped
// the pages: the segment is broken.
func (a *appender) sync() error {
	if a.file == nil {
		return nil
	}
	if err := unix.Fdatasync(int(a.file.Fd())); err != nil {
		a.broken = true
		return spaceError(fmt.Errorf("sync %s: %w", a.file.Name(), err))
	}
	return nil
}

// close ends the appender and makes all that it wrote durable.
func (a *appender) close() error {
	if a.file == nil {
		return nil
	}
	err := errors.Join(a.sync(), a.file.Close())
	a.file = nil
	return err
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
