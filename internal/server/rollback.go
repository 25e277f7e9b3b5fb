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

// rolledBackFile is the name of a file in the directory of a replica that was rolled back, with the evidence.
// While the file exists, the replica does not run.
const rolledBackFile = "rolled-back"

// ErrRolledBack means that the directory of a replica was replaced by an older copy or snapshot. The replica
// has lost the promises that it has made since.
var ErrRolledBack = errors.New("the directory was rolled back")

// NoteRollback records, before a server starts, that the directories of all its replicas were rolled back. It
// also records the highest incarnation that others have seen.
func NoteRollback(dir string, incarnation uint64, reason string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !replicaDir.MatchString(e.Name()) { // other directories were set aside
			continue
		}
		partition := filepath.Join(dir, e.Name())
		if err := durable.WriteFile(filepath.Join(partition, rolledBackFile), []byte(reason+"\n")); err != nil {
			return fmt.Errorf("note that %s was rolled back: %w", partition, err)
		}
	}
	return durable.WriteCopied(filepath.Join(dir, incarnationFile), fmt.Appendf(nil, "%d\n", incarnation))
}

// LastIncarnation returns the last incarnation of the server in dir; 0: none.
func LastIncarnation(dir string) (uint64, error) {
	return lastIncarnation(filepath.Join(dir, incarnationFile))
}

// checkRolledBack fails if the replica in dir was found to be rolled back.
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

// checkPosition compares the end of the log of a replica with the positions that other servers know. A log in
// memory has no position.
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

// acceptedFile is the name of a file that records that an operator has accepted the state of a replica which
// was rolled back. The positions of its log are not compared any more.
const acceptedFile = "accepted"

// accepted reports whether an operator has accepted the rollback of a replica, by removing rolledBackFile
// after the replica had stopped.
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

// Incarnation returns the number of the last start of this server.
func (s *Server) Incarnation() uint64 { return s.incarnation.Load() }

// positionPatience is the time limit for the position of a replica, which may be busy with a transfer of
// state.
const positionPatience = 500 * time.Millisecond

// Positions returns the durable end of the log of each replica on this server, by process. It omits busy
// replicas and logs in memory.
func (s *Server) Positions(ctx context.Context) map[multicast.ProcessID]wal.Position {
	if s.cfg.Durability == wal.Memory {
		return nil
	}
	all := map[multicast.ProcessID]wal.Position{}
	for _, r := range s.residences() {
		h := r.hosted.Load()
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
