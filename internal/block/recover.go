package block

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// recover brings segments and index together after a crash: see S1 to S3 in the package
// comment.
func (s *Segments) recover() error {
	frontier, err := s.index.frontier()
	if err != nil {
		return err
	}
	sizes, last, err := s.segments()
	if err != nil {
		return err
	}
	if frontier.offset > sizes[frontier.segment] {
		if err := s.dropDangling(sizes); err != nil {
			return err
		}
		frontier = place{segment: frontier.segment + 1}
	}
	end := frontier
	for n := uint64(frontier.segment); n <= uint64(last); n++ {
		if _, ok := sizes[uint32(n)]; !ok {
			continue
		}
		if n > uint64(frontier.segment) {
			end = place{segment: uint32(n)}
		}
		if end, err = s.replay(end); err != nil {
			return err
		}
	}
	return s.resume(end)
}

// segments gives the size of each segment, in bytes, and the number of the last one.
func (s *Segments) segments() (sizes map[uint32]uint64, last uint32, err error) {
	names, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return nil, 0, err
	}
	sizes = make(map[uint32]uint64)
	for _, name := range names {
		n, ok := parseSegment(name.Name())
		if !ok {
			continue
		}
		info, err := name.Info()
		if err != nil {
			return nil, 0, err
		}
		sizes[n] = uint64(info.Size())
		last = max(last, n)
	}
	return sizes, last, nil
}

// dropDangling drops the index entries that point beyond the end of their segments.
func (s *Segments) dropDangling(sizes map[uint32]uint64) error {
	var c changes
	err := s.index.entries(func(id ID, e *entry) {
		if e.inline == nil && e.at.offset+recordHeader+uint64(e.length) > sizes[e.at.segment] {
			c.drop(id)
		}
	})
	if err != nil {
		return err
	}
	return s.index.commit(&c, true)
}

// replay indexes the good records of a segment from a place on, cuts what follows
// the last of them, and gives the new end. If a block is indexed already, the later
// record wins: it was put because the earlier one is bad. A record whose header is good but whose bytes
// are not is stepped over: it was not acknowledged, or it went bad later.
func (s *Segments) replay(from place) (end place, err error) {
	path := filepath.Join(s.config.Dir, segmentName(from.segment))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(int64(from.offset), io.SeekStart); err != nil {
		return end, err
	}
	var c changes
	in, at, data := bufio.NewReaderSize(file, 64<<10), from, []byte(nil)
	end = from
	for {
		r, next, err := readRecord(in, at, &data)
		if err != nil {
			return end, err
		}
		if next == at {
			break
		}
		if checksum(r.id, data) == r.crc {
			c.set(r.id, &entry{crc: r.crc, at: at, length: r.length})
			end = next
		}
		at = next
	}
	if err := file.Truncate(int64(end.offset)); err != nil {
		return end, err
	}
	if err := file.Sync(); err != nil {
		return end, err
	}
	c.setFrontier(end)
	return end, s.index.commit(&c, true)
}

// readRecord reads the record at a place into data and gives the place behind it; the
// same place if no whole record with a good header is there.
func readRecord(in io.Reader, at place, data *[]byte) (record, place, error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return record{}, at, notEnd(err)
	}
	r, ok := decodeRecord(&header)
	if !ok {
		return record{}, at, nil
	}
	if cap(*data) < int(r.length) {
		*data = make([]byte, MaxSize)
	}
	*data = (*data)[:r.length]
	if _, err := io.ReadFull(in, *data); err != nil {
		return record{}, at, notEnd(err)
	}
	return r, place{segment: at.segment, offset: at.offset + recordHeader + uint64(r.length)}, nil
}

// notEnd gives nil for the end of the file.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// resume goes on appending at end, in the last segment if it is there.
func (s *Segments) resume(end place) error {
	s.appender.end = end
	file, err := os.OpenFile(filepath.Join(s.config.Dir, segmentName(end.segment)), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("last segment: %w", err)
	}
	s.appender.file = file
	return nil
}
