package server

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// hosted is a replica on this server with what it owns.
type hosted struct {
	partition uint16
	process   multicast.ProcessID
	keys      *kv.Store
	log       *wal.Log
	driver    *driver.Driver
}

func (h *hosted) close() error {
	var errs []error
	if h.log != nil {
		errs = append(errs, h.log.Close())
	}
	if h.keys != nil {
		errs = append(errs, h.keys.Close())
	}
	return errors.Join(errs...)
}

// startReplica brings the n-th replica of p back to where it was, and answers calls to it.
func (s *Server) startReplica(p *topology.Partition, n int, incarnation uint64) (err error) {
	h := &hosted{partition: p.ID, process: p.Replicas[n].Process}
	s.replicas = append(s.replicas, h)
	dir := filepath.Join(s.cfg.Dir, fmt.Sprintf("partition-%d", p.ID))
	if h.keys, err = s.openKeys(filepath.Join(dir, "state")); err != nil {
		return err
	}
	if h.log, err = wal.Open(filepath.Join(dir, "log"), wal.Options{Durability: s.cfg.Durability}); err != nil {
		return err
	}
	if cut := h.log.Repaired(); cut > 0 {
		s.cfg.Logger.Warn("write-ahead log: cut a record that was not completely written before the last stop; nothing acknowledged was in it",
			"server", s.cfg.Name, "partition", p.ID, "bytes", cut)
	}
	core, err := s.recoverCore(h, incarnation)
	if err != nil {
		return err
	}
	birth := s.cfg.Cluster
	machine, err := meta.New(h.keys, meta.Config{
		Partition: p.ID, Genesis: genesis(birth, p), Time: posix.Time(max(0, birth.Created.UnixNano())),
		Owner: posix.Cred{UID: birth.Owner.UID, GID: birth.Owner.GID},
	})
	if err != nil {
		return err
	}
	r, err := replica.New(replica.Config{
		Partition: p.ID, Partitions: len(s.cfg.Cluster.Partitions), Self: h.process, Index: n, Incarnation: incarnation,
	}, core, h.keys, machine)
	if err != nil {
		return err
	}
	endpoint := s.endpoint(h.process)
	links, err := endpoint.Links(incarnation)
	if err != nil {
		return err
	}
	h.driver = driver.New(h.process, r, links, h.log, driver.NewSystemClock())
	endpoint.Serve(h.driver.Handle)
	return nil
}

// openKeys opens the store of a replica; where nothing is to survive a restart, in memory.
func (s *Server) openKeys(dir string) (*kv.Store, error) {
	if s.cfg.Durability == wal.Memory {
		return kv.NewMemory(), nil
	}
	return kv.Open(dir, kv.Options{})
}

// recoverCore replays the log over the store: what the store does not hold will be delivered
// again.
func (s *Server) recoverCore(h *hosted, incarnation uint64) (*primcast.Core, error) {
	position, err := replica.Position(h.keys)
	if err != nil {
		return nil, err
	}
	core, err := primcast.New(primcast.Config{
		Self: h.process, Groups: s.cfg.Cluster.Groups(), Delivered: position, Seed: incarnation,
		Retain: math.MaxInt, // a replica cannot take over the state of another yet
	})
	if err != nil {
		return nil, err
	}
	for record, err := range h.log.Replay() {
		if err != nil {
			return nil, fmt.Errorf("write-ahead log: %w", err)
		}
		if err := core.Replay(record); err != nil {
			return nil, fmt.Errorf("write-ahead log: %w", err)
		}
	}
	return core, nil
}

// genesis is what the root directory of p holds at birth.
func genesis(c *topology.Cluster, p *topology.Partition) []meta.Birth {
	if p.ID != 0 {
		return nil
	}
	var births []meta.Birth
	for _, local := range c.Partitions[1:] {
		births = append(births, meta.Birth{Name: local.Path[1:], Ino: local.Root()})
	}
	return births
}
