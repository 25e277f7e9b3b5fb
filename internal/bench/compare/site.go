package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/pause"
)

// site is the working directory of one measurement: one round in one directory, with a number of clients.
type site struct {
	ctx      context.Context
	cfg      *Config
	place    *place
	dir      string
	workers  []*worker
	programs programs
	archive  *archive
}

// newSite makes the directories of the clients below the working directory of p.
func newSite(ctx context.Context, cfg *Config, p *place, clients int, a *archive) (*site, error) {
	s := &site{ctx: ctx, cfg: cfg, place: p, dir: filepath.Join(p.work, fmt.Sprintf("%d-clients", clients)), archive: a}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return nil, err
	}
	for i := range clients {
		w := &worker{dir: filepath.Join(s.dir, fmt.Sprint(i)), offset: newOffsets(i), buffer: make([]byte, piece)}
		if err := os.Mkdir(w.dir, 0o755); err != nil {
			return nil, errors.Join(err, s.remove())
		}
		for j := range w.buffer {
			w.buffer[j] = byte(j + j>>8*31) // not zeroes, which a file system may leave out
		}
		s.workers = append(s.workers, w)
	}
	return s, nil
}

// taking returns the clients that take part in a measure.
func (s *site) taking(m *measure) []*worker {
	if m.program {
		return s.workers[:1]
	}
	return s.workers
}

// together has all clients do something at the same time.
func (s *site) together(do func(w *worker) error) error {
	return together(s.workers, func(_ int, w *worker) error { return do(w) })
}

func together(workers []*worker, do func(i int, w *worker) error) error {
	errs := make([]error, len(workers))
	var running sync.WaitGroup
	for i, w := range workers {
		running.Go(func() { errs[i] = do(i, w) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// remove removes all that was made.
func (s *site) remove() error {
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.closeLarge(), w.closeWritten())
	}
	return errors.Join(append(errs, removeAll(s.dir))...)
}

// removeAll removes a directory with all that is in it. A program that was killed may still make a file in
// it for a moment.
func removeAll(dir string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		_ = pause.For(context.Background(), 50*time.Millisecond) // the run may have been interrupted
	}
	return err
}

// barrier returns when the file system has confirmed that the work is done: after fsync of the directories
// and syncfs.
func (s *site) barrier(m *measure) error {
	var directories []string
	for _, w := range s.workers {
		directories = append(directories, w.dir)
	}
	if m.directories != nil {
		more, err := m.directories(s)
		if err != nil {
			return err
		}
		directories = more
	}
	for _, dir := range directories {
		if err := syncDirectory(dir, unix.Fsync); err != nil {
			return fmt.Errorf("fsync %s: %w", dir, err)
		}
	}
	if err := syncDirectory(s.dir, unix.Syncfs); err != nil {
		return fmt.Errorf("syncfs %s: %w", s.dir, err)
	}
	return nil
}

// syncDirectory calls sync for an open directory. A file system that cannot sync directories is none the
// worse for it.
func syncDirectory(dir string, sync func(fd int) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = sync(int(d.Fd()))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
