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
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Damage describes a replica on this server with a damaged log or store. The replica does not run, since it
// may have lost promises. Another process must take its place.
type Damage struct {
	Partition uint16
	Process   multicast.ProcessID
	Reason    string
}

// DamageFile is the name of a file in the directory of a damaged replica, with a description of the damage.
// At the next start the whole log and store are read. If they have no damage, the file is deleted.
const DamageFile = "damaged"

// errBehindLog means that the store of a replica lacks entries that its log does not contain any more. An
// empty store is an example.
var errBehindLog = errors.New("the store is older than the beginning of the write-ahead log")

// errNoLog means that the log of a replica is missing.
var errNoLog = errors.New("the write-ahead log is gone, and the store is there")

// isDamage reports whether an error means that a file of a replica is not as it was written last, or that the
// replica has another state than the other replicas.
func isDamage(err error) bool {
	var log *wal.CorruptError
	return errors.As(err, &log) || errors.Is(err, kv.ErrDamaged) || errors.Is(err, errBehindLog) || errors.Is(err, errNoLog) ||
		errors.Is(err, errDiverged) || errors.Is(err, ErrRolledBack)
}

// isUnreadable is like isDamage, for files that are only read: data that the disk cannot read also counts as
// damaged.
func isUnreadable(err error) bool { return isDamage(err) || errors.Is(err, syscall.EIO) }

// checkStore fails if the store lacks entries that the replayed logs do not contain any more.
func checkStore(cores ...order.Recovered) error {
	for _, core := range cores {
		if at, has := core.Lacks(); has {
			return fmt.Errorf("%w: it lacks entries of class %v up to %v", errBehindLog, at.Class, at.Position)
		}
	}
	return nil
}

// checkLog fails if a replica that has executed entries has no log.
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

// hasLog reports whether a directory has segments of a log. A missing directory has none.
func hasLog(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" }), err
}

// Damaged returns the damaged replicas on this server, which do not run, sorted by partition.
func (s *Server) Damaged() (all []Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.damaged {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Damage) int { return int(a.Partition) - int(b.Partition) })
	return all
}

// setDamaged records a damaged replica, in memory and in its directory. The partition continues with the
// other replicas.
func (s *Server) setDamaged(h *hosted, err error) {
	d := Damage{Partition: h.partition, Process: h.process, Reason: err.Error()}
	dir := s.partitionDir(h.partition)
	s.cfg.Logger.Error("the log or the store of a replica is damaged, was rolled back, or differs from the other replicas: the replica does not run; another process takes its place as soon as a majority of the others takes part",
		"server", s.cfg.Name, "partition", h.partition, "process", h.process, "dir", dir, "error", err)
	if noteErr := durable.WriteFile(filepath.Join(dir, DamageFile), []byte(d.Reason+"\n")); noteErr != nil {
		s.cfg.Logger.Warn("the damage of a replica cannot be recorded in its directory: the next start looks for it again",
			"server", s.cfg.Name, "partition", h.partition, "dir", dir, "error", noteErr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged[h.partition] = d
}

// isDamaged reports whether the replica of a process on this server does not run because of damage.
func (s *Server) isDamaged(partition uint16, process multicast.ProcessID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, is := s.damaged[partition]
	return is && d.Process == process
}

func (s *Server) partitionDir(partition uint16) string {
	return filepath.Join(s.cfg.Dir, topology.PartitionDir(partition))
}

// reexamine reads the whole store of a replica that was found damaged before. Its log was replayed already.
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

// A scrub reads all tables of the store of a replica, soon after the start and then regularly. Without
// scrubs, damage to rarely read data would be found only after other copies are damaged, too.
const (
	scrubFirst = 2 * time.Second
	scrubEvery = 24 * time.Hour
	scrubPiece = 1 << 20 // bytes that are read before a rest
	scrubRest  = 50 * time.Millisecond
)

// scrub reads the store of a replica regularly. It returns the first damage, or nil when ctx ends.
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
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("the store of a replica could not be verified, and is verified again in a day",
				"server", s.cfg.Name, "partition", h.partition, "error", err)
		}
	}
	return nil
}
