// Package server is one GlobalFS server process: the replicas that the cluster places on
// it, each with its write-ahead log, its store and its driver, and its
// storage node.
package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/region"
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
	Tuning
	// Endpoint gives the access to the network of a process of this server.
	Endpoint func(multicast.ProcessID) transport.Endpoint
	// Asker says who makes a call, from the call's context. nil: nobody proves who he is, and everybody may do
	// everything.
	Asker func(context.Context) Asker
	// VectorKeys returns the keys by which the servers prove to each other what clients have seen, the newest
	// first. nil, or none: clients are believed.
	VectorKeys func() [][]byte
	// ClientRates bound the requests of each bound client to the replicas here.
	ClientRates ClientRates
	// RightsOptional lets bound clients read blocks without a right to them, as clients of older versions do.
	RightsOptional bool
	// Lengths returns the lengths of blocks of a partition in bytes, as all its regions know them; 0 of one that
	// is not stored. It may give some beside an error. Nil: only the storage of this server's region is asked.
	Lengths func(ctx context.Context, partition uint16, ids []block.ID) ([]uint32, error)
	// RolledBack tells whether the log of a process was further once than a position, by what others know: the
	// reason, or nothing. nil: nobody knows anything.
	RolledBack func(multicast.ProcessID, wal.Position) string
	Logger     *slog.Logger
}

// Tuning are bounds and rates whose defaults fit most clusters.
type Tuning struct {
	// Retain is how many bytes of commands a replica keeps for others that are away; beyond it they take over
	// its state when they come back. 0: primcast.DefaultRetain, for each of the two orders. With wal.Memory:
	// everything.
	Retain int
	// Healing is how the storage node keeps its region whole. Zero: region.DefaultHealing.
	Healing region.Healing
}

// Server runs until its context ends.
type Server struct {
	cfg         Config
	sealer      *sealer
	grants      *grants
	rates       *rates
	plan        atomic.Pointer[topology.Cluster] // the newest
	starting    sync.Mutex                       // guards the file of the incarnation
	incarnation atomic.Uint64                    // the last one
	running     sync.WaitGroup                   // what Run has begun

	changing sync.Mutex // held while what runs here changes; before mu

	mu       sync.Mutex
	life     context.Context       // GUARDED_BY mu; of Run; nil: it has not begun
	replicas map[uint16]*residence // GUARDED_BY mu; by partition
	damaged  map[uint16]Damage     // GUARDED_BY mu; by partition
	storage  *tenancy              // GUARDED_BY mu; nil: it has left the storage of its region
	errs     []error               // GUARDED_BY mu; of what has stopped
	// unsettled: a replica has stopped, and has perhaps something that is not on disk.
	unsettled bool // GUARDED_BY mu
}

// residence is the place of a replica on this server. The replica may start anew in it.
type residence struct {
	now     atomic.Pointer[hosted]
	stop    context.CancelFunc      // nil: Run has not begun
	done    chan struct{}           // closed when it has ended and is closed
	trouble atomic.Pointer[Stopped] // nil: the replica runs
	told    int                     // of the replacements in its group, that many; GUARDED_BY Server.changing
}

// tenancy is the storage node while it runs.
type tenancy struct {
	node *Storage
	stop context.CancelFunc
	done chan struct{}
}

// Start opens everything that the server holds and begins to answer. On an error nothing is
// left open.
func Start(cfg Config) (_ *Server, err error) {
	if cfg.Asker == nil {
		cfg.Asker = trustAll
	}
	s := &Server{cfg: cfg, replicas: map[uint16]*residence{}, damaged: map[uint16]Damage{}}
	s.sealer = &sealer{keys: cfg.VectorKeys, cluster: cfg.Cluster.Identity()}
	s.grants, s.rates = &grants{sealer: s.sealer}, newRates(cfg.ClientRates)
	s.plan.Store(cfg.Cluster)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("server %s: %w", cfg.Name, err), s.Close())
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
	life, err := beginLife(cfg.Dir, cfg.Durability, cfg.Logger.With("server", cfg.Name))
	if err != nil {
		return nil, err
	}
	if self.State != topology.StorageLeft {
		node, err := s.startStorage(self)
		if err != nil {
			return nil, err
		}
		s.storage = &tenancy{node: node}
	}
	for p, n := range s.mine(cfg.Cluster) {
		if err := s.open(p, n, incarnation); err != nil {
			return nil, err
		}
	}
	if len(s.damaged) == 0 {
		if err := life.settle(cfg.Dir, cfg.Durability); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// mine gives the partitions of which there is a replica here, each with the index of that.
func (s *Server) mine(plan *topology.Cluster) iter.Seq2[*topology.Partition, int] {
	return func(yield func(*topology.Partition, int) bool) {
		for i := range plan.Partitions {
			p := &plan.Partitions[i]
			n := slices.IndexFunc(p.Replicas, func(r topology.Replica) bool { return r.Server == s.cfg.Name })
			if n >= 0 && !yield(p, n) {
				return
			}
		}
	}
}

// open starts the replica of p with index n, but for its driver. A damaged one does not start, which is no
// error.
func (s *Server) open(p *topology.Partition, n int, incarnation uint64) error {
	h := &hosted{partition: p.ID, index: n, process: p.Replicas[n].Process, counts: &counts{}}
	if err := s.startReplica(h, incarnation); err != nil {
		err = errors.Join(fmt.Errorf("replica of partition %d: %w", p.ID, err), h.close())
		if !isUnreadable(err) {
			return err
		}
		s.setDamaged(h, err)
		return nil
	}
	r := &residence{done: make(chan struct{}), told: len(s.plan.Load().Replacements(p))}
	r.now.Store(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas[p.ID] = r
	delete(s.damaged, p.ID)
	return nil
}

func (s *Server) nextIncarnation() (uint64, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	next, err := nextIncarnation(filepath.Join(s.cfg.Dir, incarnationFile))
	if err == nil {
		s.incarnation.Store(next)
	}
	return next, err
}

func (s *Server) startStorage(self *topology.Server) (*Storage, error) {
	return StartStorage(StorageConfig{
		Self: self.Storage, Members: Members(s.cfg.Cluster, self.Region), Copies: s.cfg.Cluster.Copies,
		Dir: s.cfg.Dir, NoSync: s.cfg.Durability != wal.Sync, Healing: s.cfg.Healing,
		Endpoint: s.cfg.Endpoint(self.Storage), Asker: s.cfg.Asker, MayGet: s.mayGet, Logger: s.cfg.Logger.With("server", s.cfg.Name),
		Region: string(self.Region), Server: self.Name,
	})
}

// Storage is the storage node; nil if the server has left the storage of its region.
func (s *Server) Storage() *Storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.storage == nil {
		return nil
	}
	return s.storage.node
}

// Run drives the replicas and the storage node until ctx ends, then closes everything. A replica that fails
// starts anew after a while, and stops if an invariant was broken or its log or store is damaged; its
// neighbours go on. Run gives the errors of those that have stopped by a broken invariant.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	s.life = ctx
	for _, r := range s.replicas {
		s.begin(r)
	}
	if s.storage != nil {
		s.beginStorage()
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.changing.Lock() // what is just being started is begun, and ends at once
	defer s.changing.Unlock()
	s.running.Wait()
	s.failed(s.endLife())
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// begin drives a replica until it ends, and closes it. The caller holds mu.
func (s *Server) begin(r *residence) {
	ctx, stop := context.WithCancel(s.life)
	r.stop = stop
	s.running.Go(func() {
		defer close(r.done)
		err := s.run(ctx, r)
		stop()
		h := r.now.Load()
		if err != nil || h.settle() != nil {
			s.mu.Lock()
			s.unsettled = true
			s.mu.Unlock()
		}
		if isDamage(err) {
			_ = h.close() // says again what is known
			s.setDamaged(h, err)
			s.mu.Lock()
			delete(s.replicas, h.partition)
			s.mu.Unlock()
			return
		}
		if err != nil {
			s.cfg.Logger.Error("a replica has stopped for good: its partition goes on with the others; please report this",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "error", err)
			r.stopped(StateStopped, err)
			err = fmt.Errorf("server %s: replica %d of partition %d stopped: %w", s.cfg.Name, h.process, h.partition, err)
		}
		s.failed(err, h.close())
	})
}

// beginStorage runs the storage node until it ends, and closes it. The caller holds mu.
func (s *Server) beginStorage() {
	ctx, stop := context.WithCancel(s.life)
	t := s.storage
	t.stop, t.done = stop, make(chan struct{})
	s.running.Go(func() {
		defer close(t.done)
		t.node.Run(ctx)
		s.failed(t.node.Close())
	})
}

// failed notes errors for who waits for Run.
func (s *Server) failed(errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		s.errs = append(s.errs, err)
	}
}

// Close closes a server that is not to Run after all.
func (s *Server) Close() error {
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, r.now.Load().close())
	}
	if s.storage != nil {
		errs = append(errs, s.storage.node.Close())
	}
	return errors.Join(errs...)
}
