package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// The end of a table: the places of two blocks as varints, padding and a magic number. It is the only part of
// a table without a checksum.
const (
	footerSize   = 48
	blockTrailer = 5 // type and checksum
)

var errFooter = errors.New("the footer of a table is damaged")

// checkFooter refuses a table with a footer that names blocks outside of it: LevelDB would allocate any
// length named there.
func checkFooter(fd storage.FileDesc, r storage.Reader) error {
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("%v: %w", fd, err)
	}
	if size < footerSize {
		return ldberrors.NewErrCorrupted(fd, errFooter)
	}
	var footer [footerSize]byte
	if _, err := r.ReadAt(footer[:], size-footerSize); err != nil {
		return fmt.Errorf("%v: %w", fd, err)
	}
	rest, room := footer[:], uint64(size-footerSize)
	for range 2 {
		offset, n := binary.Uvarint(rest)
		length, m := binary.Uvarint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || offset > room || length > room || offset+length+blockTrailer > room {
			return ldberrors.NewErrCorrupted(fd, errFooter)
		}
		rest = rest[n+m:]
	}
	return nil
}
