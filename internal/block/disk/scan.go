package disk

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// scanner reads the records of a segment in order. After a bad header it searches for the next whole good
// record, so that damage hides only the damaged records. The search may find a record inside of the data of
// a block, for example if the block is a copy of a segment. That does no harm: its checksum covers the id,
// so it is a good copy of the block that it names.
type scanner struct {
	file io.ReaderAt
	size uint64 // of the file
	at   uint64 // start of the search for the next record
	data []byte
}

// next returns the next record with a good header, and its place; false at the end.
func (s *scanner) next() (r segfile.Record, at uint64, ok bool, err error) {
	for s.at+segfile.HeaderSize <= s.size {
		r, ok, err := s.header(s.at)
		if err != nil {
			return segfile.Record{}, 0, false, err
		}
		if ok {
			at, s.at = s.at, s.at+segfile.HeaderSize+uint64(r.Length)
			return r, at, true, nil
		}
		if err := s.resync(); err != nil {
			return segfile.Record{}, 0, false, err
		}
	}
	return segfile.Record{}, 0, false, nil
}

// header reads the header at an offset; false if there is no header of a record that fits.
func (s *scanner) header(at uint64) (segfile.Record, bool, error) {
	var header [segfile.HeaderSize]byte
	if err := s.read(header[:], at); err != nil {
		return segfile.Record{}, false, err
	}
	r, ok := segfile.ParseHeader(&header)
	return r, ok && at+segfile.HeaderSize+uint64(r.Length) <= s.size, nil
}

// content returns the data of the record at an offset, valid until the next call; false if they are bad.
func (s *scanner) content(r *segfile.Record, at uint64) ([]byte, bool, error) {
	if cap(s.data) < int(r.Length) {
		s.data = make([]byte, block.MaxSize)
	}
	data := s.data[:r.Length]
	if err := s.read(data, at+segfile.HeaderSize); err != nil {
		return nil, false, err
	}
	return data, block.Sum(r.ID, data) == r.Sum, nil
}

// resync moves at to the next whole good record, or to the end.
func (s *scanner) resync() error {
	const window = 64 << 10
	chunk := make([]byte, window)
	for base := s.at + 1; base+segfile.HeaderSize <= s.size; base += window - uint64(len(segfile.Magic)) + 1 {
		chunk := chunk[:min(window, s.size-base)]
		if err := s.read(chunk, base); err != nil {
			return err
		}
		for from := 0; ; {
			i := bytes.Index(chunk[from:], []byte(segfile.Magic))
			if i < 0 {
				break
			}
			at := base + uint64(from+i)
			from += i + 1
			r, ok, err := s.header(at)
			if err == nil && ok {
				_, ok, err = s.content(&r, at)
			}
			if err != nil {
				return err
			}
			if ok {
				s.at = at
				return nil
			}
		}
	}
	s.at = s.size
	return nil
}

// read fills into. Bytes that the disk cannot read become zeros, which are no record.
func (s *scanner) read(into []byte, at uint64) error {
	n, err := s.file.ReadAt(into, int64(at))
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EIO) {
		clear(into[n:])
		return nil
	}
	return err
}
