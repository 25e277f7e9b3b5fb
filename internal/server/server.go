// Package server is one GlobalFS server process: the replicas that the cluster places on
// it, each with its write-ahead log, its store and its driver, and its
// storage node.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of a server.
type Config struct {
	Cluster    *topology.Cluster
	Name       string // of the server in Cluster
	Dir        string // where it keeps its data; made if it is missing
	Durability wal.Durability
	// Retain is how many bytes of commands a replica keeps for others that are away; beyond it they take over its
	// state when they come back. 0: primcast.DefaultRetain, for each of the two orders. With wal.Memory: everything.
	Retain int
	// Healing is how the storage node keeps its region whole. Zero: block.DefaultHealing.
	Healing block.Healing
	// Endpoint gives the access to the network of a process of this server.
	Endpoint func(multicast.ProcessID) transport.Endpoint
	Logger   *slog.Logger
}

// Server runs until its context ends or one of its replicas fails.
type Server struct {
	cfg      Config
	replicas []*hosted
	starting sync.Mutex // guards the file of the incarnation
	storage  *Storage   // nil: it has left the storage of its region
}

// Start opens everything that the server holds and begins to answer. On an error nothing is
// left open.
func Start(cfg Config) (_ *Server, err error) {
	s := &Server{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("server %s: %w", cfg.Name, err), s.close())
		}
	}()
	self := cfg.Cluster.Server(cfg.Name)
	if self == nil {
		return nil, fmt.Errorf("the cluster has no server of this name")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	incarnation, err := s.nextIncarnation()
	if err != nil {
		return nil, err
	}
	if self.State != topology.StorageLeft {
		if s.storage, err = s.startStorage(self); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Cluster.Partitions {
		p := &cfg.Cluster.Partitions[i]
		for n, r := range p.Replicas {
			if r.Server != cfg.Name {
				continue
			}
			h := &hosted{partition: p.ID, index: n, process: r.Process}
			s.replicas = append(s.replicas, h)
			if err := s.startReplica(h, incarnation); err != nil {
				return nil, fmt.Errorf("replica of partition %d: %w", p.ID, err)
			}
		}
	}
	return s, nil
}

func (s *Server) nextIncarnation() (uint64, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	return nextIncarnation(filepath.Join(s.cfg.Dir, "incarnation"))
}

func (s *Server) startStorage(self *topology.Server) (*Storage, error) {
	return StartStorage(StorageConfig{
		Self: self.Storage, Members: Members(s.cfg.Cluster, self.Region), Copies: s.cfg.Cluster.Copies,
		Dir: s.cfg.Dir, NoSync: s.cfg.Durability != wal.Sync, Healing: s.cfg.Healing,
		Endpoint: s.cfg.Endpoint(self.Storage), Logger: s.cfg.Logger.With("server", s.cfg.Name),
		Region: string(self.Region), Server: self.Name,
	})
}

// Storage is the storage node; nil if the server has left the storage of its region.
func (s *Server) Storage() *Storage { return s.storage }

// Metrics tells what there is of this server.
func (s *Server) Metrics(report metrics.Report) {
	if s.storage != nil {
		s.storage.Metrics(report)
	}
}

// Run drives the replicas and the storage node until ctx ends, then closes everything. A replica that fails is
// logged and stops, its neighbours go on; Run gives the errors of all.
func (s *Server) Run(ctx context.Context) error {
	errs := make([]error, len(s.replicas))
	var running sync.WaitGroup
	for i, r := range s.replicas {
		running.Go(func() {
			if err := s.run(ctx, r); err != nil {
				errs[i] = fmt.Errorf("server %s: replica %d of partition %d stopped: %w", s.cfg.Name, r.process, r.partition, err)
				s.cfg.Logger.Error("replica stopped: its partition goes on with the others; restart this server once the cause is gone",
					"server", s.cfg.Name, "partition", r.partition, "process", r.process, "error", err)
			}
		})
	}
	if s.storage != nil {
		running.Go(func() { s.storage.Run(ctx) })
	}
	<-ctx.Done()
	running.Wait()
	return errors.Join(append(errs, s.close())...)
}

func (s *Server) close() error {
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, r.close())
	}
	if s.storage != nil {
		errs = append(errs, s.storage.Close())
	}
	return errors.Join(errs...)
}
