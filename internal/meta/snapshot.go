package meta

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
)

// A snapshot consists of a line with the format, the keys in order with their values, an empty key, and the
// SHA-256 of all that. Lengths are unsigned varints. Equal states have equal snapshots.
const snapshotHeader = "globalfs snapshot 1\n"

// The limits of lengths in a snapshot, which bound the memory that a forged length can allocate.
const (
	maxSnapshotKey   = 1 << 12
	maxSnapshotValue = 16 << 20
)

// ErrBadSnapshot is the error of ReadSnapshot for input that is not a complete, unchanged snapshot.
var ErrBadSnapshot = errors.New("bad snapshot")

// Scanner is the source that Snapshot reads: a Keys, or a view of one.
type Scanner interface {
	Scan(from, to []byte) iter.Seq2[[]byte, []byte]
}

// Snapshot writes all keys, including those of other packages. Scan returns no errors, so the owner of the
// keys must check them for an error afterwards.
func Snapshot(keys Scanner, w io.Writer) error {
	sum := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(w, sum))
	_, err := out.WriteString(snapshotHeader)
	var length []byte
	for key, value := range keys.Scan(nil, nil) {
		for _, b := range [][]byte{key, value} {
			length = binary.AppendUvarint(length[:0], uint64(len(b)))
			_, err = out.Write(append(length, b...))
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = out.WriteByte(0)
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		_, err = w.Write(sum.Sum(nil))
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ReadSnapshot passes the keys and values of a snapshot to yield, in order. yield may keep both. Use them
// only if ReadSnapshot returns no error: the checksum is at the end.
func ReadSnapshot(r io.Reader, yield func(key, value []byte) error) error {
	in := &snapshotReader{r: bufio.NewReader(r), sum: sha256.New()}
	header := make([]byte, len(snapshotHeader))
	if in.read(header); in.err == nil && string(header) != snapshotHeader {
		return fmt.Errorf("%w: it does not begin with %q", ErrBadSnapshot, snapshotHeader)
	}
	var last []byte
	for {
		key := in.bytes(maxSnapshotKey)
		if in.err != nil || len(key) == 0 {
			break
		}
		if bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%w: key %x does not follow %x", ErrBadSnapshot, key, last)
		}
		value := in.bytes(maxSnapshotValue)
		if in.err != nil {
			break
		}
		if err := yield(key, value); err != nil {
			return err
		}
		last = key
	}
	computed, stored := in.sum.Sum(nil), make([]byte, sha256.Size)
	in.read(stored)
	switch {
	case in.err != nil:
		return in.err
	case !bytes.Equal(computed, stored):
		return fmt.Errorf("%w: the checksum is wrong", ErrBadSnapshot)
	}
	return nil
}

// snapshotReader reads and sums. The first error sticks.
type snapshotReader struct {
	r   *bufio.Reader
	sum hash.Hash
	err error
}

// ReadByte is for reading varints.
func (s *snapshotReader) ReadByte() (byte, error) {
	var b [1]byte
	s.read(b[:])
	return b[0], s.err
}

func (s *snapshotReader) read(into []byte) {
	if s.err != nil {
		return
	}
	_, err := io.ReadFull(s.r, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it ends early", ErrBadSnapshot)
	}
	s.err = err
	s.sum.Write(into)
}

func (s *snapshotReader) bytes(limit uint64) []byte {
	n, err := binary.ReadUvarint(s)
	if s.err == nil && (err != nil || n > limit) {
		s.err = fmt.Errorf("%w: a length of %d", ErrBadSnapshot, n)
	}
	if s.err != nil {
		return nil
	}
	b := make([]byte, n)
	s.read(b)
	return b
}
