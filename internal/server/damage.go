package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// Damage is a replica on this server whose log or store is damaged. The replica does not run: it may have
// forgotten what it has promised. Another process must take its place.
type Damage struct {
	Partition uint16
	Process   multicast.ProcessID
	Reason    string
}

// DamageFile is the name of the file that says what is damaged, in the directory of a replica. The next start
// reads all of the replica's log and store, and deletes the file if nothing is damaged after all.
const DamageFile = "damaged"

// errBehindLog says that the store of a replica lacks what its log relies on, as an empty store does.
var errBehindLog = errors.New("the store is older than the beginning of the write-ahead log")

// errNoLog says that the log of a replica is gone.
var errNoLog = errors.New("the write-ahead log is gone, and the store is there")

// isDamage reports whether an error says that a file of a replica is not as it was written, is older, or is not what
// other replicas have.
func isDamage(err error) bool {
	var log *wal.CorruptError
	return errors.As(err, &log) || errors.Is(err, kv.ErrDamaged) || errors.Is(err, errBehindLog) || errors.Is(err, errNoLog) ||
		errors.Is(err, errDiverged) || errors.Is(err, ErrRolledBack)
}

// isUnreadable is isDamage of files that were only read: what the disk cannot read is damaged, too.
func isUnreadable(err error) bool { return isDamage(err) || errors.Is(err, syscall.EIO) }

// checkStore compares the store with the log that was replayed: what the log does not hold any more the store
// must hold.
func checkStore(cores ...*primcast.Core) error {
	for _, core := range cores {
		if at, has := core.Lacks(); has {
			return fmt.Errorf("%w: it lacks entries of class %v up to %v", errBehindLog, at.Class, at.Position)
		}
	}
	return nil
}

// checkLog fails if a replica that has executed something has no log.
func checkLog(h *hosted, dir string) error {
	if executed, _, err := replica.Positions(h.keys); err != nil || executed == (multicast.Position{}) {
		return err
	}
	has, err := hasLog(dir)
	if err == nil && !has {
		err = fmt.Errorf("%w: %s", errNoLog, dir)
	}
	return err
}

// hasLog reports whether a directory has segments of a log. One that is missing has none.
func hasLog(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" }), err
}

// Damaged gives the replicas here that do not run because they are damaged, by partition.
func (s *Server) Damaged() (all []Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.damaged {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Damage) int { return int(a.Partition) - int(b.Partition) })
	return all
}

// setDamaged notes that a replica is damaged, here and in its directory. Its partition goes on with the
// others.
func (s *Server) setDamaged(h *hosted, err error) {
	d := Damage{Partition: h.partition, Process: h.process, Reason: err.Error()}
	dir := s.partitionDir(h.partition)
	s.cfg.Logger.Error("the log or the store of a replica is damaged, was rolled back, or differs from the other replicas: the replica does not run; another process takes its place as soon as a majority of the others takes part",
		"server", s.cfg.Name, "partition", h.partition, "process", h.process, "dir", dir, "error", err)
	if noteErr := durable.WriteFile(filepath.Join(dir, DamageFile), []byte(d.Reason+"\n")); noteErr != nil {
		s.cfg.Logger.Warn("the damage of a replica cannot be noted in its directory: the next start looks for it again",
			"server", s.cfg.Name, "partition", h.partition, "dir", dir, "error", noteErr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged[h.partition] = d
}

// isDamaged reports whether a process here does not run because it is damaged.
func (s *Server) isDamaged(partition uint16, process multicast.ProcessID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is := s.damaged[partition]
	return is && d.Process == process
}

func (s *Server) partitionDir(partition uint16) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("partition-%d", partition))
}

// reexamine reads the whole store of a replica that was found damaged. The log was replayed before.
func (s *Server) reexamine(h *hosted, dir string) error {
	path := filepath.Join(dir, DamageFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := h.keys.Verify(nil); err != nil {
		return err
	}
	s.cfg.Logger.Warn("a replica was found damaged, and all of its log and store can be read now: it runs again",
		"server", s.cfg.Name, "partition", h.partition, "process", h.process, "was", string(text))
	return os.Remove(path)
}

// How the stores of replicas are scrubbed: all that is in their tables is read, soon after the start and then
// again and again. What only few commands read would else be found damaged when the other copies are, too.
const (
	scrubFirst = 2 * time.Second
	scrubEvery = 24 * time.Hour
	scrubPiece = 1 << 20 // then it rests
	scrubRest  = 50 * time.Millisecond
)

// scrub reads the store of a replica over and over until ctx ends, or the store is damaged, which it gives.
func (s *Server) scrub(ctx context.Context, h *hosted) error {
	for wait := scrubFirst; pause.For(ctx, wait) == nil; wait = scrubEvery {
		read := 0
		err := h.keys.Verify(func(bytes int) bool {
			if read += bytes; read >= scrubPiece {
				read = 0
				return pause.For(ctx, scrubRest) == nil
			}
			return true
		})
		if isUnreadable(err) && ctx.Err() == nil {
			return fmt.Errorf("scrub: %w", errors.Join(err, kv.ErrDamaged))
		}
	}
	return nil
}
