package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ServerConfig configures a server.
type ServerConfig struct {
	File   *File
	Name   string       // name of the server
	Listen string       // address at which to listen; empty: the one in the description of the cluster
	Build  string       // version of the program, for the status
	Device string       // name of the RDMA device of a cluster with topology.MemoryVerbs; empty: the first one
	Logger *slog.Logger // the server adds its name to each line
	server.Tuning

	// The parts that servers in one process share. They are nil for a process with one server.

	Registry registry.Registry // nil: the etcd of File
	Network  Network           // nil: connections with TLS between the addresses of the servers
	Listener net.Listener      // open listener at the server's address, which StartServer owns; nil: the server opens its address
}

// Network connects the processes of servers, except for calls to servers themselves, which always use
// connections between addresses. Its methods may be called concurrently.
type Network interface {
	// Endpoint returns the network access of a process of a server. The process must not be running.
	Endpoint(at topology.Region, p multicast.ProcessID) transport.Endpoint
	// Client returns a caller of processes that receives no calls.
	Client(at topology.Region) attach.Caller
}

// Server is a server process of a cluster: its replicas, its storage server, and its share of the background
// work.
type Server struct {
	cfg      ServerConfig
	logger   *slog.Logger
	dir      string
	started  time.Time
	instance string

	unlock    func() error
	registry  registry.Registry
	etcd      *registry.Etcd // the registry, if this server opened it
	known     known
	transport *transport.Server
	objects   atomic.Pointer[attach.Objects] // object storage of the background work; nil: not open yet
	// credentials are the certificate and the key of the server; nil: the cluster has no certificates.
	credentials *identity.Credentials
	// vectorKeys returns the keys of the server's key file; nil: the cluster has no certificates.
	vectorKeys func() [][]byte
	server     *server.Server
	work       *work
	blocks     atomic.Pointer[attach.Client] // the client of the background work; nil: not made yet
	metrics    metrics.Set
	ran        bool // Run has closed the server

	mending     mendings // replacements of damaged replicas on this server
	rollbacks   *rollbacks
	inspections inspections
	registered

	applied atomic.Uint64          // version of the description that all parts of the server have adopted
	growth  atomic.Pointer[Growth] // nil: no partition is being added

	unapplied chan struct{} // capacity 1: Run must adopt a newer description
}

// registered is the part of a Server that concerns the registry.
type registered struct {
	delegates delegates
	apart     atomic.Pointer[string] // error of the registry; nil: none
}

// StartServer opens the server and begins to answer. The caller must then call Run. After an error nothing is
// left open. If information is needed that only the registry has, StartServer waits for the registry.
func StartServer(ctx context.Context, cfg ServerConfig) (_ *Server, err error) {
	s := &Server{cfg: cfg, dir: filepath.Join(cfg.File.DataDir, cfg.Name), started: time.Now(), unapplied: make(chan struct{}, 1)}
	s.logger = cfg.Logger.With("server", cfg.Name)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("server %s: %w", cfg.Name, err), s.close())
			if s.cfg.Listener != nil {
				err = errors.Join(err, s.cfg.Listener.Close())
			}
		}
	}()
	if err := s.identify(); err != nil {
		return nil, err
	}
	if s.registry = cfg.Registry; s.registry == nil {
		if s.etcd, err = openRegistry(cfg.File, s.logger); err != nil {
			return nil, err
		}
		s.registry = s.etcd
	}
	s.delegates.registry = s.registry
	if s.unlock, err = claimDir(s.dir); err != nil {
		return nil, err
	}
	d, err := s.learn(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.checkAlone(ctx, d); err != nil {
		return nil, err
	}
	if s.instance, err = checkOwner(s.dir, cfg.Name, d); err != nil {
		return nil, err
	}
	if err := checkRestored(ctx, s.dir, cfg.Name, d, memory{s}); err != nil {
		return nil, err
	}
	if err := s.claimName(ctx); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil { // from now on calls are refused at once, so that callers do not wait
		return nil, err
	}
	if _, err := s.settle(ctx); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	logMended(s.dir, s.known.current.Load(), s.logger)
	return s, nil
}

// claimName fails if the server runs elsewhere according to the registry (D2). With a new data directory, for
// example after the loss of a disk, the server waits until the lease of its last run has ended.
func (s *Server) claimName(ctx context.Context) error {
	last, err := server.LastIncarnation(s.dir)
	if err != nil {
		return err
	}
	until := time.Now().Add(s.cfg.File.Registry.Lease + patience)
	err = s.registry.Claim(ctx, s.presence())
	for logged := false; errors.Is(err, registry.ErrTaken) && last == 0 && time.Now().Before(until); logged = true {
		if !logged {
			s.logger.Warn("the name of this server is taken, perhaps by its previous process, whose lease has not ended: waiting", "at most", s.cfg.File.Registry.Lease, "error", err)
		}
		if ended := pause.For(ctx, patience); ended != nil {
			return errors.Join(ended, err)
		}
		err = s.registry.Claim(ctx, s.presence())
	}
	if errors.Is(err, registry.ErrUnavailable) {
		s.logger.Warn("the registry does not answer whether this server also runs elsewhere: continuing", "error", err)
		return nil
	}
	return err
}

func (s *Server) presence() registry.Presence {
	host, _ := os.Hostname() // only for operators; it may be missing
	return registry.Presence{Name: s.cfg.Name, Instance: s.instance, Info: fmt.Appendf(nil, "process %d on %s, version %s\n%s\n%s", os.Getpid(), host, s.cfg.Build, knowsDelegations, numbersGrants)}
}

// listen opens the server's address.
func (s *Server) listen() (err error) {
	cfg := s.transportConfig()
	cfg.Known = s.self().Address
	cfg.Listener, s.cfg.Listener = s.cfg.Listener, nil
	if cfg.Address = s.cfg.Listen; cfg.Address == "" {
		cfg.Address = cfg.Known
	}
	if cfg.Credentials != nil {
		s.vectorKeys = cfg.Credentials.VectorKeys
		if len(s.vectorKeys()) == 0 {
			s.logger.Warn("the key file of this server has no vector key: a client can claim to have seen what never was; 'globalfs certs server NAME' adds the key where the CA's key is",
				"server", s.cfg.Name)
		}
	}
	s.transport, err = transport.Listen(cfg)
	return err
}

// transportConfig returns the configuration of this process' connections to others.
func (s *Server) transportConfig() transport.Config {
	cfg := transport.Config{Resolve: s.known.resolve, Logger: s.logger}
	cfg.Credentials = s.credentials
	cfg.SharedMemory = s.cfg.File.Fabric == topology.FabricAuto
	return cfg
}

// identify loads the certificate of the server.
func (s *Server) identify() (err error) {
	if s.cfg.File.Certificates == "" {
		return nil
	}
	s.credentials, err = identity.Load(identity.FilesIn(s.cfg.File.Certificates, identity.Server, s.cfg.Name), s.logger)
	if err != nil {
		return err
	}
	if cluster := s.credentials.Identity().Cluster; cluster != s.cfg.File.Name {
		return fmt.Errorf("certificate: it is of cluster %q, not of %q", cluster, s.cfg.File.Name)
	}
	return nil
}

// endpoint returns the access of a process of this server to others.
func (s *Server) endpoint(p multicast.ProcessID) transport.Endpoint {
	if s.cfg.Network != nil {
		return s.cfg.Network.Endpoint(s.self().Region, p)
	}
	return s.transport.Endpoint(p)
}

// dial returns a caller of the processes of the cluster.
func (s *Server) dial() attach.Caller {
	if s.cfg.Network != nil {
		return s.cfg.Network.Client(s.self().Region)
	}
	return transport.Dial(s.transportConfig())
}

// self returns this server in the newest description.
func (s *Server) self() *topology.Server { return s.known.current.Load().cluster.Server(s.cfg.Name) }

// open starts the replicas, the storage server and the background work.
func (s *Server) open(ctx context.Context) error {
	durability, err := s.cfg.File.durability()
	if err != nil {
		return err
	}
	if err := s.introduce(ctx); err != nil {
		return err
	}
	s.rollbacks = s.newRollbacks()
	if err := s.rollbacks.remember(ctx); err != nil {
		return err
	}
	d := s.known.current.Load()
	s.server, err = server.Start(server.Config{
		Cluster: d.cluster, Name: s.cfg.Name, Dir: s.dir, Durability: durability, Device: s.cfg.Device,
		Tuning: s.cfg.Tuning, Endpoint: s.endpoint, Asker: asking, VectorKeys: s.vectorKeys, Lengths: s.lengths,
		ClientRates: s.cfg.File.Clients.rates(), Sign: signing(s),
		RightsOptional: s.cfg.File.Clients.BlockRights == rightsOptional, TicketsOptional: s.cfg.File.Clients.InodeTickets == rightsOptional,
		RolledBack: s.rollbacks.wasFurther, Logger: s.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if err := s.rollbacks.begin(ctx, s.server.Incarnation()); err != nil {
		return err
	}
	s.metrics.Add(s.server.Metrics)
	s.metrics.Add(func(to metrics.Report) { reportConnections(to, s.transport, s.self()) })
	if s.work, err = s.newWork(ctx); err != nil {
		return err
	}
	s.blocks.Store(s.work.client)
	s.applied.Store(d.spec.Version)
	s.transport.Control(s.control)
	return nil
}

// lengths returns the lengths of blocks of a partition from the storage of its regions.
func (s *Server) lengths(ctx context.Context, partition uint16, ids []block.ID) ([]uint32, error) {
	client := s.blocks.Load()
	if client == nil {
		return nil, errors.New("the server starts, and cannot ask the storage of regions yet")
	}
	return client.Lengths(ctx, partition, ids)
}

// Address returns the address at which the server listens.
func (s *Server) Address() string { return s.transport.Address() }

// Metrics returns the metrics of all parts of the server.
func (s *Server) Metrics() *metrics.Set { return &s.metrics }

// Run serves until ctx ends or the server must stop, and then closes everything.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.registry.Announce(ctx, s.presence()); err != nil {
			stop(err) // another process has taken the name of this server
		}
	})
	running.Go(func() { s.watch(ctx, stop) })
	running.Go(func() { s.probe(ctx) })
	running.Go(func() { s.follow(ctx) })
	running.Go(func() { s.retire(ctx) })
	running.Go(func() { growing{s}.run(ctx) })
	running.Go(func() { s.tidy(ctx) })
	running.Go(func() { s.mend(ctx) })
	running.Go(func() { s.work.compared.run(ctx) })
	running.Go(func() {
		if err := s.rollbacks.run(ctx, s.server); err != nil {
			stop(err)
		}
	})
	running.Go(func() { s.work.run(ctx, s.server) })
	err := s.server.Run(ctx)
	running.Wait()
	s.ran = true
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return errors.Join(err, s.close())
}

// close closes the open resources.
func (s *Server) close() error {
	var err error
	if s.work != nil {
		err = s.work.close()
	}
	if s.server != nil && !s.ran {
		err = errors.Join(err, s.server.Close())
	}
	if s.transport != nil {
		err = errors.Join(err, s.transport.Close())
	}
	if s.etcd != nil {
		err = errors.Join(err, s.etcd.Close())
	}
	if s.unlock != nil {
		err = errors.Join(err, s.unlock())
	}
	return err
}
