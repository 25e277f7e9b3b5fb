package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Remains is a replica of a stopped server, for the recovery of a partition that has lost its majority. It
// takes no steps.
type Remains struct {
	Process multicast.ProcessID
	Log     RemainingLog // of the partition's own order
	Keys    *kv.Store
	Replica *replica.Replica
	// Doubt is the reason why the log may lack entries that the replica has acknowledged; empty: it lacks
	// none.
	Doubt string
	// Position is the durable end of the log.
	Position wal.Position
}

// Close closes the store.
func (r *Remains) Close() error { return r.Keys.Close() }

// OpenRemains opens a replica from a copy of its server's directory. copied is the copy, which OpenRemains
// may change; original is the directory of the stopped server. index is the place of the replica among the
// replicas of the partition.
func OpenRemains(plan *topology.Cluster, partition uint16, index int, copied, original string) (_ *Remains, err error) {
	s := &Server{cfg: Config{Dir: copied, Durability: wal.OS, Logger: slog.New(slog.DiscardHandler)}}
	s.plan.Store(plan)
	p := &plan.Partitions[partition]
	h := &hosted{partition: partition, index: index, process: p.Replicas[index].Process}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	dir := s.partitionDir(partition)
	r := &Remains{Process: h.process}
	if r.Doubt, err = doubtOf(original, dir); err != nil {
		return nil, err
	}
	if h.keys, err = s.openKeys(filepath.Join(dir, "state")); err != nil {
		return nil, err
	}
	if err := errors.Join(h.keys.Verify(nil), s.endAdoption(h, filepath.Join(dir, "log")), checkLog(h, filepath.Join(dir, "log"))); err != nil {
		return nil, err
	}
	// No boot id is given: the log may come from another host.
	if h.log, err = wal.Open(filepath.Join(dir, "log"), wal.Options{Durability: wal.OS}); err != nil {
		return nil, err
	}
	r.Position = h.log.Durable()
	local, between, err := s.recoverCores(plan, h, 1)
	if err != nil {
		return nil, err
	}
	machine, err := meta.New(h.keys, metaConfig(plan, p))
	if err != nil {
		return nil, err
	}
	r.Replica, err = replica.New(replica.Config{
		Cluster: plan.Identity(), Partition: partition, Groups: plan.Groups(), Founded: plan.Founded, Self: h.process, Index: index, Incarnation: 1,
	}, local, between, h.keys, machine)
	if err != nil {
		return nil, err
	}
	r.Log, r.Keys = RemainingLogOf(local), h.keys
	log := h.log
	h.log, h.keys = nil, nil
	return r, log.Close()
}

// doubtOf returns the reason why a replica may have lost records; empty: there is none. It fails for a
// damaged replica. original is the directory of the server, dir the copy of the replica's directory.
func doubtOf(original, dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, DamageFile))
	if err == nil && !strings.Contains(string(text), ErrRolledBack.Error()) {
		return "", fmt.Errorf("it was found damaged (%s): remove the file %s from its directory to use it all the same", strings.TrimSpace(string(text)), DamageFile)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := checkRolledBack(dir); errors.Is(err, ErrRolledBack) {
		return "its directory was rolled back", nil
	} else if err != nil {
		return "", err
	}
	marked, err := isMarked(dir)
	if err != nil || marked {
		return "its machine has lost power", err
	}
	last, err := lastLife(original, wal.OS)
	if err != nil {
		return "", err
	}
	if last.lost(BootID()) {
		return "its machine has lost power, or its directory was copied to this host before the server was stopped cleanly (durability os)", nil
	}
	return "", nil
}
