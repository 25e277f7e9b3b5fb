package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// rolledBackFile is in the directory of a replica that was rolled back: it says how that is known. While it is
// there the replica does not run.
const rolledBackFile = "rolled-back"

// ErrRolledBack says that the directory of a replica is older than it was: a copy or a snapshot was put back.
// The replica has forgotten what it has promised since.
var ErrRolledBack = errors.New("the directory was rolled back")

// NoteRollback notes in the directory of a server, before that starts, that the directories of all its replicas
// were rolled back. It also notes the incarnation that is known to have been used.
func NoteRollback(dir string, incarnation uint64, reason string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !replicaDir.MatchString(e.Name()) { // others are set aside
			continue
		}
		partition := filepath.Join(dir, e.Name())
		if err := durable.WriteFile(filepath.Join(partition, rolledBackFile), []byte(reason+"\n")); err != nil {
			return fmt.Errorf("note that %s was rolled back: %w", partition, err)
		}
	}
	return durable.WriteCopied(filepath.Join(dir, incarnationFile), fmt.Appendf(nil, "%d\n", incarnation))
}

// LastIncarnation is the last one that the server in dir has used; 0: none.
func LastIncarnation(dir string) (uint64, error) {
	return lastIncarnation(filepath.Join(dir, incarnationFile))
}

// checkRolledBack fails if the replica in dir was found rolled back before.
func checkRolledBack(dir string) error {
	path := filepath.Join(dir, rolledBackFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return rolledBack(path, strings.TrimSpace(string(text)))
}

func rolledBack(path, reason string) error {
	return fmt.Errorf("%w: %s. If no majority of the other replicas is left, and nothing newer than this directory, remove %s and start the server again: what was acknowledged since is lost",
		ErrRolledBack, reason, path)
}

// checkPosition compares the log of a replica with what others know of it. A log in memory has no positions.
func (s *Server) checkPosition(h *hosted, dir string) error {
	if s.cfg.RolledBack == nil || s.cfg.Durability == wal.Memory {
		return nil
	}
	reason := s.cfg.RolledBack(h.process, h.log.Durable())
	if reason == "" {
		return nil
	}
	if accepted, err := s.accepted(h, dir); accepted || err != nil {
		return err
	}
	path := filepath.Join(dir, rolledBackFile)
	if err := durable.WriteFile(path, []byte(reason+"\n")); err != nil {
		return fmt.Errorf("note that %s was rolled back: %w", dir, err)
	}
	return rolledBack(path, reason)
}

// acceptedFile says that an operator has accepted the state of a replica that was rolled back: the positions of
// its log that others know are not compared any more.
const acceptedFile = "accepted"

// accepted reports whether an operator has accepted that the replica was rolled back: the file that said so was
// removed after the replica had stopped.
func (s *Server) accepted(h *hosted, dir string) (bool, error) {
	path := filepath.Join(dir, acceptedFile)
	_, err := os.Stat(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, DamageFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || !strings.Contains(string(text), ErrRolledBack.Error()):
		return false, err
	}
	s.cfg.Logger.Warn("an operator has accepted that a replica was rolled back: it runs, and what was acknowledged since is lost",
		"server", s.cfg.Name, "partition", h.partition, "process", h.process)
	return true, durable.WriteFile(path, text)
}

// Incarnation is the last one that was used here.
func (s *Server) Incarnation() uint64 { return s.incarnation.Load() }

// positionPatience bounds how long a replica is waited for: it may be taking over a state.
const positionPatience = 500 * time.Millisecond

// Positions gives how far the log of each replica here is durable, by process. One that is busy is missing, and
// so are logs in memory.
func (s *Server) Positions(ctx context.Context) map[multicast.ProcessID]wal.Position {
	if s.cfg.Durability == wal.Memory {
		return nil
	}
	all := map[multicast.ProcessID]wal.Position{}
	for _, r := range s.residences() {
		h := r.now.Load()
		if h.catching.Load() {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, positionPatience)
		at := make(chan wal.Position, 1)
		err := h.driver.Between(asked, func() { at <- h.log.Durable() })
		cancel()
		if err == nil {
			all[h.process] = <-at
		}
	}
	return all
}
