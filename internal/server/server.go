// Package server implements a GlobalFS server: the replicas that the description of the cluster places on it,
// and its storage server.
//
//	frames of other servers, calls of servers and clients   package transport
//	   |
//	admission of calls: identity, rates, turns              asker.go, rates.go, contention.go
//	   |
//	   +--> replica: driver, write-ahead log, store         one for each partition with a replica here
//	   +--> storage server: disk, node of the region        at most one, package region
//
// A residence is the place of a replica on the server. A hosted is one run of the replica in it, with its
// log, store, driver and links. Run restarts a replica that has failed, after a wait. It does not restart a
// replica with a broken invariant or with damage (damage.go); the others continue. Update adopts a newer
// description of the cluster: replicas start, stop and learn of new members.
//
// Two kinds of loss are detected at the start of a replica, since it may have forgotten promises: a loss of
// power with unsynced records (amnesia.go), and a directory that was replaced by an older copy (rollback.go).
// A replica that needs entries which its group does not keep any more takes over the state of another one
// (transfer.go).
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
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/trace"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of a server.
type Config struct {
	Cluster    *topology.Cluster
	Name       string // name of the server in Cluster
	Dir        string // data directory; it is made if it is missing
	Durability wal.Durability
	// Device is the name of the RDMA device of a cluster with topology.MemoryVerbs; empty: the first one.
	Device string
	Tuning
	// Endpoint returns the network access of a process of this server.
	Endpoint func(multicast.ProcessID) transport.Endpoint
	// Asker returns the caller of a call from the call's context. nil: there is no authentication, and every
	// caller has all rights.
	Asker func(context.Context) Asker
	// VectorKeys returns the keys that verify the vectors of clients, the newest first. nil, or no keys:
	// vectors are trusted.
	VectorKeys func() [][]byte
	// ClientRates limit the requests of each bound client to the replicas on this server.
	ClientRates ClientRates
	// RightsOptional permits bound clients to read blocks without a right, as clients of older versions do.
	RightsOptional bool
	// TicketsOptional permits bound clients to name inodes without tickets, as clients of older versions do.
	TicketsOptional bool
	// Lengths returns the lengths of blocks of a partition in bytes, from the storage of all its regions; 0
	// for a block that is not stored. It may return some lengths together with an error. nil: only the
	// storage of this server's region is asked.
	Lengths func(ctx context.Context, partition uint16, ids []block.ID) ([]uint32, error)
	// Sign signs requests to the object storage of the server's region. nil: the blocks are on the disks of
	// servers.
	Sign func(ctx context.Context, s block.Signing) (url string, err error)
	// RolledBack returns the evidence of other servers that the log of a process was once longer than a
	// position; empty: there is none. nil: there are no other servers.
	RolledBack func(multicast.ProcessID, wal.Position) string
	Logger     *slog.Logger
}

// Tuning holds bounds and rates. The defaults suit most clusters.
type Tuning struct {
	// Retain is the number of bytes of commands that a replica keeps for unavailable replicas, in each of
	// its two orders. Beyond it these replicas take over its state when they return. 0:
	// primcast.DefaultRetain. With wal.Memory a replica keeps all commands.
	Retain int
	// Healing configures how the storage server repairs the region. Zero: region.DefaultHealing.
	Healing region.Healing
}

// Server is a running server. Its methods may be called concurrently, except that Run or Close is called
// once.
type Server struct {
	cfg         Config
	sealer      *sealer
	grants      *grants
	tickets     *tickets
	admission   *admission
	recorder    trace.Recorder
	plan        atomic.Pointer[topology.Cluster] // the newest description that Update has adopted
	starting    sync.Mutex                       // held while the file of the incarnation changes
	incarnation atomic.Uint64                    // the last used one
	running     sync.WaitGroup                   // the goroutines of Run

	changing sync.Mutex // held while replicas or the storage server start and stop; locked before mu

	mu       sync.Mutex
	life     context.Context       // GUARDED_BY mu; context of Run; nil: Run was not called
	replicas map[uint16]*residence // GUARDED_BY mu; by partition
	damaged  map[uint16]Damage     // GUARDED_BY mu; by partition
	storage  *tenancy              // GUARDED_BY mu; nil: the server has left the storage of its region
	errs     []error               // GUARDED_BY mu; errors of replicas and storage that have ended
	// unsettled means that a replica has stopped, perhaps with data that is not on disk.
	unsettled bool // GUARDED_BY mu
}

// residence is the place of a replica on this server. The replica may restart in it.
type residence struct {
	hosted       atomic.Pointer[hosted]
	stop         context.CancelFunc      // nil: Run has not begun
	done         chan struct{}           // closed when the replica has ended and is closed
	trouble      atomic.Pointer[Stopped] // reason why the replica does not run; nil: it runs
	replacements int                     // GUARDED_BY Server.changing; number of replacements in its group that the replica was informed of
	partitions   counted                 // GUARDED_BY Server.changing; partitions that the replica was informed of
}

// tenancy is the storage server and its lifetime.
type tenancy struct {
	node *Storage
	stop context.CancelFunc
	done chan struct{}
}

// Start opens all resources of the server and begins to answer. On an error nothing is left open.
func Start(cfg Config) (_ *Server, err error) {
	if cfg.Asker == nil {
		cfg.Asker = trustAll
	}
	s := &Server{cfg: cfg, replicas: map[uint16]*residence{}, damaged: map[uint16]Damage{}}
	s.sealer = &sealer{keys: cfg.VectorKeys, cluster: cfg.Cluster.Identity()}
	s.grants, s.tickets, s.admission = newGrants(s.sealer), newTickets(s.sealer), newAdmission(&s.cfg)
	turns := replicaTurns{worked: func() map[uint16]time.Duration { return workOf(s) }}
	s.admission.contention.areTurnsShort = turns.areShort
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

// mine yields the partitions with a replica on this server, and the index of that replica in each.
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

// open opens the replica of p with index n; its driver does not run yet. For a damaged replica it records the
// damage, and returns no error.
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
	r := &residence{done: make(chan struct{}), replacements: len(s.plan.Load().Replacements(p)), partitions: partitionsOf(s.plan.Load(), p.ID)}
	r.hosted.Store(h)
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
		Endpoint: s.cfg.Endpoint(self.Storage), Asker: s.cfg.Asker, MayGet: s.mayGet, Turn: s.admission.storage, Sign: s.cfg.Sign, Logger: s.cfg.Logger.With("server", s.cfg.Name),
		Partitions: func() int { return len(s.plan.Load().Partitions) }, Region: string(self.Region), Server: self.Name,
	})
}

// Storage returns the storage server; nil if this server has left the storage of its region.
func (s *Server) Storage() *Storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.storage == nil {
		return nil
	}
	return s.storage.node
}

// Run drives the replicas and the storage server until ctx ends, and then closes everything. A failed replica
// restarts after a wait. A replica with a broken invariant or with damage ends, and the others continue. Run
// returns the errors of replicas with broken invariants.
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
	s.changing.Lock() // a replica that is being started has begun, and ends at once
	defer s.changing.Unlock()
	s.running.Wait()
	s.failed(s.endLife())
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

// begin drives the replica of a residence until it ends, and closes it. The caller holds mu.
func (s *Server) begin(r *residence) {
	ctx, stop := context.WithCancel(s.life)
	r.stop = stop
	s.running.Go(func() {
		defer close(r.done)
		err := s.run(ctx, r)
		stop()
		h := r.hosted.Load()
		if err != nil || h.settle() != nil {
			s.mu.Lock()
			s.unsettled = true
			s.mu.Unlock()
		}
		if isDamage(err) {
			_ = h.close() // run has reported its error
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

// beginStorage runs the storage server until it ends, and closes it. The caller holds mu.
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

// failed adds errors to the result of Run.
func (s *Server) failed(errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		s.errs = append(s.errs, err)
	}
}

// Close closes a server without a call of Run.
func (s *Server) Close() error {
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, r.hosted.Load().close())
	}
	if s.storage != nil {
		errs = append(errs, s.storage.node.Close())
	}
	return errors.Join(errs...)
}
