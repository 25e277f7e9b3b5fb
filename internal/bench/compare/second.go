package compare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/pause"
)

// The measures of visibility: the time from the end of a change to the moment at which a second mount of the
// directory shows it. The second mount has looked before the change, so it has the old state in its caches.

const (
	seenSteps    = 50                     // of one measure, over all clients
	seenInterval = 100 * time.Microsecond // between two looks
	seenLimit    = time.Minute
)

func seenCount(s *site, _ *worker) int { return max(1, min(s.cfg.Files, seenSteps)/len(s.workers)) }

// errNotSeen means that the second mount does not show the same directory, or hangs.
var errNotSeen = errors.New("the second mount does not show the change: give another mount of the same directory")

// second returns the name of a file of the working directory in the second mount.
func (p *place) second(name string) (string, error) {
	below, err := filepath.Rel(p.Path, name)
	return filepath.Join(p.Second, below), err
}

// until looks until shown reports that the second mount shows a change, and keeps the time since start.
func (s *site) until(w *worker, start time.Time, shown func() (bool, error)) error {
	for {
		ok, err := shown()
		w.took = time.Since(start)
		if ok || err != nil {
			return err
		}
		if w.took > seenLimit {
			return fmt.Errorf("after %v: %w", seenLimit, errNotSeen)
		}
		if err := pause.For(s.ctx, seenInterval); err != nil {
			return err
		}
	}
}

// change looks at a name in the second mount, changes it in the first, and waits until it exists there or is
// absent.
func (s *site) change(w *worker, name string, exist bool, change func() error) error {
	there, err := s.place.second(name)
	if err != nil {
		return err
	}
	if exist { // else the step before has seen it
		if _, err := durable.Exists(there); err != nil {
			return err
		}
	}
	if err := change(); err != nil {
		return err
	}
	return s.until(w, time.Now(), func() (bool, error) {
		found, err := durable.Exists(there)
		return found == exist, err
	})
}

func seenCreate(s *site, w *worker, _ int) error {
	name := w.newName()
	return s.change(w, name, true, func() error { return w.create(name) })
}

func seenRename(s *site, w *worker, n int) error {
	return s.changeExisting(w, w.names[n], func() error { return rename(s, w, n) })
}

func seenUnlink(s *site, w *worker, n int) error {
	return s.changeExisting(w, w.names[len(w.names)-1], func() error { return unlink(s, w, n) })
}

// changeExisting is like change, for a name that goes away, which the second mount must have seen before.
func (s *site) changeExisting(w *worker, name string, change func() error) error {
	there, err := s.place.second(name)
	if err != nil {
		return err
	}
	if err := s.until(w, time.Now(), func() (bool, error) { return durable.Exists(there) }); err != nil {
		return err
	}
	return s.change(w, name, false, change)
}

// seenWrite writes a number through an open descriptor and reads it through one of the second mount.
func seenWrite(s *site, w *worker, n int) (err error) {
	if w.written == nil {
		if err := s.openWritten(w); err != nil {
			return err
		}
	}
	var number, read [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(n)+1)
	if _, err := w.written.WriteAt(number[:], 0); err != nil {
		return err
	}
	return s.until(w, time.Now(), func() (bool, error) {
		_, err := w.shown.ReadAt(read[:], 0)
		return read == number, err
	})
}

// openWritten makes a file, and opens it in both mounts.
func (s *site) openWritten(w *worker) (err error) {
	name := filepath.Join(w.dir, "written")
	there, err := s.place.second(name)
	if err != nil {
		return err
	}
	if w.written, err = os.Create(name); err != nil {
		return err
	}
	if _, err := w.written.WriteAt(make([]byte, 8), 0); err != nil {
		return err
	}
	return s.until(w, time.Now(), func() (bool, error) {
		if w.shown != nil {
			_ = w.shown.Close() // only read
		}
		if w.shown, err = os.Open(there); errors.Is(err, fs.ErrNotExist) {
			w.shown = nil
			return false, nil
		}
		if err != nil {
			return false, err
		}
		n, _ := w.shown.ReadAt(make([]byte, 8), 0) // the end of the file comes early if its size is not seen yet
		return n == 8, nil
	})
}

func (w *worker) closeWritten() (err error) {
	for _, f := range []*os.File{w.written, w.shown} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
