package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/wal"
)

// # Loss of power
//
// With durability os, a loss of power may take records that a replica has acknowledged. The replica must then
// know of the loss (package primcast, amnesia.go). The file life in the directory of the server has the boot
// id of the kernel on which the server runs, and whether the server stopped after a sync of all its logs and
// stores. A start with another boot id, without such a stop, means a loss of power. Then:
//
//  1. A file amnesiac is made in the directory of each replica with a log, durably.
//  2. The new boot id is recorded durably. After a crash before that, the next start repeats step 1.
//  3. A replica with the file starts as amnesiac. Its first turn records the loss in its log, synced.
//  4. The file amnesiac is deleted. After a crash before that, the replica is amnesiac again, which is safe.
//
// A replica without a vote answers no requests, so clients ask another one. Its log may lack records that its
// store has, so it cannot confirm that an entry is on disk (ask.Persist). Once its log has the state of an
// epoch, it is in the same situation as a replica that was down for a while: queries wait until it has
// executed the entries that their clients have seen.
//
// A failed sync of the log stops the replica, and it restarts in this process or the next one. The log then
// has all acknowledged records on disk, or it counts as damaged (package wal, Rot).
//
// Each sync of the store comes after a sync of the log (syncedKeys). Package primcast relies on that.

// amnesiacFile exists in the directory of a replica that may have lost records, until its log records the
// loss.
const amnesiacFile = "amnesiac"

// errAmnesiac answers calls to a replica that may have lost records.
var errAmnesiac = errors.New("replica has lost power, and waits for the state of a majority of the others")

// life is the content of the file life.
type life struct {
	Boot     string `json:"boot"`     // boot id of the kernel; empty: unknown, and different from all others
	Unsynced bool   `json:"unsynced"` // a loss of power may take records of this run
	Clean    bool   `json:"clean"`    // the server stopped after a sync of all its data
}

// bootVariable is for tests of a loss of power: the value of this environment variable replaces the boot id
// of the kernel.
const bootVariable = "GLOBALFS_TEST_BOOT_ID"

// BootID returns the boot id of the kernel; empty if it is unknown.
func BootID() string {
	if id := os.Getenv(bootVariable); id != "" {
		return id
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // a system without one: each crash counts as a loss of power
	}
	return strings.TrimSpace(string(id))
}

func (l *life) save(dir string) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, "life"), append(text, '\n'))
}

// lastLife reads the file life. Without the file, the server is new, or an older version has run in the
// directory. An invalid file counts as a loss of power.
func lastLife(dir string, d wal.Durability) (life, error) {
	text, err := os.ReadFile(filepath.Join(dir, "life"))
	if errors.Is(err, fs.ErrNotExist) {
		return life{Unsynced: d == wal.OS}, nil
	}
	if err != nil {
		return life{}, err
	}
	var l life
	if json.Unmarshal(text, &l) != nil {
		l = life{Unsynced: true}
	}
	return l, nil
}

// lost reports whether records may have been lost between the run l of the server and its start on a host
// with boot id boot.
func (l *life) lost(boot string) bool {
	return l.Unsynced && !l.Clean && (boot == "" || l.Boot != boot)
}

var replicaDir = regexp.MustCompile(`^partition-[0-9]+$`)

// beginLife records that the server runs. After a loss of power it first marks the replicas as amnesiac. Call
// it before the replicas are opened, and settle once all are open.
func beginLife(dir string, d wal.Durability, logger *slog.Logger) (life, error) {
	last, err := lastLife(dir, d)
	if err != nil || d == wal.Memory {
		return last, err
	}
	now := life{Boot: BootID(), Unsynced: d == wal.OS || last.Unsynced && !last.Clean}
	if last.lost(now.Boot) {
		if err := markAmnesiac(dir, logger); err != nil {
			return now, err
		}
	}
	if now == last {
		return now, nil
	}
	return now, now.save(dir)
}

// settle records that all replicas are open, so that the data of earlier runs is synced. With wal.Sync, all
// later data is synced, too.
func (l *life) settle(dir string, d wal.Durability) error {
	if d != wal.Sync || !l.Unsynced {
		return nil
	}
	l.Unsynced = false
	return l.save(dir)
}

func markAmnesiac(dir string, logger *slog.Logger) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	marked := 0
	for _, e := range entries {
		if !e.IsDir() || !replicaDir.MatchString(e.Name()) {
			continue
		}
		has, err := hasLog(filepath.Join(dir, e.Name(), "log"))
		if err != nil {
			return err
		}
		if !has {
			continue // the replica is new, and has sent no messages
		}
		if err := durable.WriteFile(filepath.Join(dir, e.Name(), amnesiacFile), nil); err != nil {
			return err
		}
		marked++
	}
	if marked > 0 {
		logger.Warn("the machine has started anew since this server ran, with durability os, and the server was not stopped before: "+
			"replicas may have lost records, and have no vote until they have the state of a majority of the others, or until all replicas are back",
			"dir", dir, "replicas", marked)
	}
	return nil
}

// endLife records that the server has stopped with all its data synced.
func (s *Server) endLife() error {
	s.mu.Lock()
	settled := !s.unsettled && len(s.damaged) == 0
	s.mu.Unlock()
	if s.cfg.Durability != wal.OS || !settled {
		return nil
	}
	l := life{Boot: BootID(), Unsynced: true, Clean: true}
	return l.save(s.cfg.Dir)
}

// settle syncs the log and the store of a replica after its driver has ended without an error.
func (h *hosted) settle() error {
	if h.log == nil || h.keys == nil {
		return wal.ErrClosed
	}
	return errors.Join(h.log.Sync(), h.keys.Commit(true))
}

// isMarked reports whether a replica may have lost records and its log does not record the loss.
func isMarked(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, amnesiacFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// unmark deletes the file amnesiac after the first turn, which has recorded the loss in the log.
func (s *Server) unmark(ctx context.Context, h *hosted) {
	if !h.marked {
		return
	}
	for range 2 { // a complete turn is between two calls
		if h.driver.Between(ctx, func() {}) != nil {
			return
		}
	}
	if err := durable.Remove(filepath.Join(s.partitionDir(h.partition), amnesiacFile)); err != nil {
		s.cfg.Logger.Warn("a file cannot be deleted: the next start treats the replica as one that has lost power, which is safe",
			"server", s.cfg.Name, "partition", h.partition, "error", err)
	}
}

// voter is a replica that publishes after each step whether it has a vote.
type voter struct {
	*replica.Replica
	own      order.Recovered
	amnesiac *atomic.Bool
	logger   *slog.Logger
}

// Step implements turn.Node.
func (v voter) Step(in *turn.Input, out *turn.Output) {
	v.Replica.Step(in, out)
	is := v.own.Amnesiac()
	if v.amnesiac.Swap(is) && !is {
		v.logger.Info("a replica that had lost power has the state of the others, and takes part again")
	}
}

// syncedKeys is the store of a replica with its log. All data that is durable in the store is durable in the
// log.
type syncedKeys struct {
	*kv.Store
	log driver.Log
}

// Commit implements replica.Keys.
func (k syncedKeys) Commit(sync bool) error {
	if sync {
		if err := k.log.Sync(); err != nil {
			return err
		}
	}
	return k.Store.Commit(sync)
}

// Replace implements replica.Keys.
func (k syncedKeys) Replace(fill kv.Fill) error {
	if err := k.log.Sync(); err != nil {
		return err
	}
	return k.Store.Replace(fill)
}
