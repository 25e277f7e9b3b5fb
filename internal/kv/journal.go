package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"

	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/journal"
	"github.com/syndtr/goleveldb/leveldb/storage"
)

// errAgain is the error for a lock held by another process.
var errAgain error = syscall.EAGAIN

// journaled lets LevelDB's journals keep K1 over a loss of power:
//   - LevelDB syncs only its newest journal. A journal is therefore synced when LevelDB turns
//     to the next one, or a later synced batch could survive an earlier one that did not.
//   - Of the tail of the newest journal, which was not synced, any block may be missing. LevelDB would
//     pass over the hole, or refuse to open; here the journal ends in front of it. In a
//     journal that was synced a hole is damage, and the store does not open.
type journaled struct{ storage.Storage }

func (s *journaled) Create(fd storage.FileDesc) (storage.Writer, error) {
	w, err := s.Storage.Create(fd)
	if err != nil || fd.Type != storage.TypeJournal {
		return w, err
	}
	return syncedAtClose{w}, nil
}

type syncedAtClose struct{ storage.Writer }

func (w syncedAtClose) Close() error {
	return errors.Join(w.Sync(), w.Writer.Close())
}

func (s *journaled) Open(fd storage.FileDesc) (storage.Reader, error) {
	r, err := s.Storage.Open(fd)
	if err == nil && fd.Type == storage.TypeTable {
		if err := checkFooter(fd, r); err != nil {
			_ = r.Close() // it was only read; LevelDB expects the bare error
			return nil, err
		}
	}
	if err != nil || fd.Type != storage.TypeJournal {
		return r, err
	}
	intact, cut, err := intactPrefix(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("%v: %w", fd, err)
	}
	if cut {
		followed, err := s.followed(fd)
		if err != nil {
			return nil, err
		}
		if followed {
			return nil, ldberrors.NewErrCorrupted(fd, errSyncedJournal)
		}
	}
	return memoryReader{bytes.NewReader(intact)}, nil
}

var errSyncedJournal = errors.New("a journal that was synced is damaged")

// followed reports whether a later journal has bytes; then this one was synced before.
func (s *journaled) followed(fd storage.FileDesc) (bool, error) {
	fds, err := s.List(storage.TypeJournal)
	if err != nil {
		return false, err
	}
	for _, other := range fds {
		if other.Num <= fd.Num {
			continue
		}
		r, err := s.Storage.Open(other)
		if err != nil {
			return false, err
		}
		n, err := r.Seek(0, io.SeekEnd)
		if err := errors.Join(err, r.Close()); err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// intactPrefix copies the records of a journal up to the first damage, and reports whether there
// was one. A journal is about as large as the write buffer.
func intactPrefix(r io.Reader) (intact []byte, cut bool, err error) {
	var out, record bytes.Buffer
	w := journal.NewWriter(&out)
	for in := journal.NewReader(r, nil, true, true); ; {
		next, err := in.Next()
		if errors.Is(err, io.EOF) {
			err := w.Close() // fills the last block
			return out.Bytes(), false, err
		}
		if err == nil {
			record.Reset()
			_, err = record.ReadFrom(next)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || ldberrors.IsCorrupted(err) {
			err := w.Close()
			return out.Bytes(), true, err
		}
		if err != nil {
			return nil, false, err
		}
		to, err := w.Next()
		if err != nil {
			return nil, false, err
		}
		if _, err := to.Write(record.Bytes()); err != nil {
			return nil, false, err
		}
	}
}

type memoryReader struct{ *bytes.Reader }

func (memoryReader) Close() error { return nil }
