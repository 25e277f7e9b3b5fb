package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// AccessConfig configures the access of a client or an operator to a cluster.
type AccessConfig struct {
	Servers []string // HOST:PORT of some servers; one that answers is enough
	// Certificates are the files with the certificates of this process. Empty: the cluster uses none and
	// listens on loopback only.
	Certificates identity.Files
	Timeout      time.Duration // time limit for the first answer of a server
	Logger       *slog.Logger
}

// Access is the access of a client or an operator to a cluster: the description of the cluster, and calls to
// its servers. The caller must close it.
type Access struct {
	cfg     AccessConfig
	known   known
	network transport.Config
	client  *transport.Client
	region  topology.Region             // region of the server that answered first
	memory  bool                        // the servers communicate in the memory of one process
	taken   atomic.Pointer[Description] // with the newest known version
	// revoking is held from the look at the newest known revocations until the credentials have them.
	revoking sync.Mutex
	// delegates has the partitions of which a client may hold directories, according to the last answer of a
	// server.
	delegates atomic.Pointer[granting]
}

// Connect finds a cluster by any of its servers. Its error gives, for each server, the reason why it cannot
// be used.
func Connect(ctx context.Context, cfg AccessConfig) (_ *Access, err error) {
	a := &Access{cfg: cfg, network: transport.Config{Logger: cfg.Logger, SharedMemory: true}}
	a.network.Resolve = a.known.resolve
	if cfg.Certificates != (identity.Files{}) {
		if a.network.Credentials, err = identity.Load(cfg.Certificates, cfg.Logger); err != nil {
			return nil, err
		}
	}
	a.client = transport.Dial(a.network)
	if err := a.find(ctx); err != nil {
		return nil, errors.Join(err, a.client.Close())
	}
	return a, nil
}

// find asks all servers at once until one answers.
func (a *Access) find(whole context.Context) error {
	ctx, cancel := context.WithTimeout(whole, a.cfg.Timeout)
	defer cancel()
	type answer struct {
		description Description
		err         error
	}
	answers := make(chan answer, len(a.cfg.Servers))
	for _, server := range a.cfg.Servers {
		go func() {
			d, err := a.askUntil(ctx, server)
			answers <- answer{d, err}
		}()
	}
	var errs []string
	found := false
	var mismatch error
	for range a.cfg.Servers {
		got := <-answers
		if found {
			continue
		}
		if got.err == nil {
			got.err = a.take(&got.description)
		}
		if got.err != nil {
			errs = append(errs, reasonOf(got.err))
			if errors.Is(got.err, errMismatch) { // the other servers are of the same kind
				mismatch = errors.Join(mismatch, got.err)
				time.AfterFunc(mismatchPatience, cancel)
			}
			continue
		}
		a.region, a.memory, found = got.description.Region, got.description.InMemory, true
		cancel() // the calls to the others end with ctx
	}
	if found {
		return nil
	}
	if mismatch != nil {
		return mismatch
	}
	if whole.Err() != nil {
		return fmt.Errorf("no server has answered yet: %w", whole.Err())
	}
	return fmt.Errorf("no server of the cluster answers in %v (%s): check that the servers run and can be reached", a.cfg.Timeout, joinReasons(errs))
}

// take adopts the description of the cluster from a server if it is newer than the known one.
func (a *Access) take(received *Description) error {
	if known := a.taken.Load(); known != nil && known.sameCluster(received) {
		a.delegates.Store(&granting{all: received.Delegates, numbered: received.NumberedGrants})
		return nil
	}
	spec, err := topology.ParseSpec([]byte(received.Spec))
	if err != nil {
		return fmt.Errorf("server %s: description of the cluster: %w", received.Server, err)
	}
	spec.Version, spec.Revoked = received.Version, received.Revoked
	d, err := describe(spec)
	if err != nil {
		return fmt.Errorf("server %s: description of the cluster: %w", received.Server, err)
	}
	newer, err := a.known.offer(d)
	if err == nil {
		if received.Version == a.Version() {
			a.taken.Store(received)
		}
		a.delegates.Store(&granting{all: received.Delegates, numbered: received.NumberedGrants})
	}
	if newer && a.network.Credentials != nil {
		a.revoking.Lock()
		defer a.revoking.Unlock()
		a.network.Credentials.SetRevoked(revocations(a.known.current.Load()))
	}
	return err
}

// Revoked returns the processes with revoked certificates.
func (a *Access) Revoked() []topology.Revocation { return a.known.current.Load().spec.Revoked }

// Restored returns the backup that the cluster was restored from; empty: it was not restored.
func (a *Access) Restored() string { return a.known.current.Load().spec.Restored }

// Cluster returns the newest known description of the cluster.
func (a *Access) Cluster() *topology.Cluster { return a.known.current.Load().cluster }

// Version returns the version of the newest known description of the cluster.
func (a *Access) Version() uint64 { return a.known.current.Load().spec.Version }

// Name returns the name of the cluster.
func (a *Access) Name() string { return a.known.current.Load().spec.Name }

// Region returns the region of the server that answered first, usually the nearest.
func (a *Access) Region() topology.Region { return a.region }

// IsBound reports whether the certificate of this process limits the users for which it may act.
func (a *Access) IsBound() bool {
	return a.network.Credentials != nil && !a.network.Credentials.Identity().Authority.Root()
}

// grants returns the grants that a client may request in a partition.
func (a *Access) grants(partition uint16) client.Grants {
	g := a.delegates.Load()
	switch {
	case g == nil || !slices.Contains(g.all, partition):
		return client.NoGrants
	case !slices.Contains(g.numbered, partition):
		return client.PlainGrants
	}
	return client.NumberedGrants
}

// delegatesAll reports whether a client may hold directories of all partitions.
func (a *Access) delegatesAll() bool {
	g := a.delegates.Load()
	return g != nil && len(g.all) >= len(a.Cluster().Partitions)
}

// CheckReach returns an error if this process can make only control calls to the servers, because their
// replicas and storage servers communicate in the memory of one process.
func (a *Access) CheckReach() error {
	if a.memory {
		return errors.New("the servers of this cluster communicate in the memory of one process, 'globalfs dev', and other processes cannot read its files: start it with 'globalfs dev --transport grpc'")
	}
	return nil
}

// Close ends the access to the servers. Clients have their own access.
func (a *Access) Close() error { return a.client.Close() }

// ClientConfig holds the settings of a mount.
type ClientConfig struct {
	Region       topology.Region
	CacheBytes   int
	Disk         *diskcache.Cache // nil: none
	DiskFar      bool             // see attach.Config
	Objects      attach.Objects   // as returned by OpenObjects
	Linearizable bool
	Hard         bool // see client.Config, like
	CacheNames   bool
	Delegate     bool
	Near         bool           // with Delegate: only of partitions with all replicas in the client's region
	Journal      client.Journal // client.Config.Journal
	Resume       *client.State
	Timeout      time.Duration
}

// Client returns a client of the cluster. The caller must close it.
func (a *Access) Client(cfg ClientConfig) (*attach.Client, error) {
	plan := a.Cluster()
	if !slices.Contains(plan.Regions, cfg.Region) {
		return nil, fmt.Errorf("cluster %q: %w", a.Name(), topology.NoRegion(cfg.Region, plan.Regions))
	}
	grants := a.grants
	if cfg.Near {
		grants = func(partition uint16) client.Grants {
			if !a.Cluster().IsNear(partition, cfg.Region) {
				return client.NoGrants
			}
			return a.grants(partition)
		}
	}
	return attach.New(attach.Config{
		Cluster: plan, Region: cfg.Region, Caller: transport.Dial(a.network), Objects: cfg.Objects,
		CacheBytes: cfg.CacheBytes, Disk: cfg.Disk, DiskFar: cfg.DiskFar, Linearizable: cfg.Linearizable, Hard: cfg.Hard, CacheNames: cfg.CacheNames, Delegate: cfg.Delegate, Grants: grants, Journal: cfg.Journal, Resume: cfg.Resume, Timeout: cfg.Timeout, Logger: a.cfg.Logger,
	})
}

// followEvery is how often a client asks whether the cluster has changed.
const followEvery = 10 * time.Second

// followFirst is the first value of followEvery for a client that may not hold directories of all partitions,
// because servers may be starting. It doubles up to followEvery.
const followFirst = 100 * time.Millisecond

// followAtOnce is the pause before a client that needs a newer description asks for it again.
const followAtOnce = 200 * time.Millisecond

// Follower is informed of changes of the cluster. A client is a Follower.
type Follower interface {
	Update(*topology.Cluster)
	// Outdated receives when the follower needs a newer description.
	Outdated() <-chan struct{}
}

// Follow passes new descriptions of the cluster to a client until ctx ends. It compares versions with the one
// that the client got last, because other users of a may have updated the description that a knows.
func (a *Access) Follow(ctx context.Context, c Follower) {
	passed, every := uint64(0), time.Duration(0)
	for {
		if now := a.known.current.Load(); now.spec.Version > passed {
			c.Update(now.cluster)
			a.cfg.Logger.Debug("following the cluster", "version", now.spec.Version)
			passed = now.spec.Version
		}
		if every = min(max(2*every, followFirst), followEvery); a.delegatesAll() {
			every = followEvery
		}
		waiting, end := context.WithTimeout(ctx, every/2+rand.N(every))
		select {
		case <-waiting.Done():
		case <-c.Outdated():
			_ = pause.For(waiting, followAtOnce) // if no server has the description yet, the client asks again
		}
		end()
		if ctx.Err() != nil {
			return
		}
		a.refresh(ctx)
	}
}

// refresh asks several servers at the same time until one answers, so that a server that hangs does not delay
// the others' answers.
func (a *Access) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	var some []topology.Server
	for _, s := range a.Cluster().Servers {
		if s.State != topology.StorageLeft {
			some = append(some, s)
		}
	}
	rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	usable := make(chan bool)
	for _, s := range some {
		go func() { usable <- a.refreshFrom(ctx, s) }()
	}
	for range some {
		if <-usable {
			cancel() // the others are waited for: they end with ctx
		}
	}
}

// refreshFrom asks one server, and reports whether its answer is usable.
func (a *Access) refreshFrom(ctx context.Context, s topology.Server) bool {
	var d Description
	if err := ask(ctx, a.client, s.Address, &Request{Op: Describe}, &d); err != nil {
		return false
	}
	if err := a.take(&d); err != nil {
		a.cfg.Logger.Warn("a server has sent an unusable description of the cluster", "server", s.Name, "error", err)
		return false
	}
	return true
}

// Answer is the status of a server, or the error of the call for it.
type Answer struct {
	Server topology.Server
	Status ServerStatus // valid if Error is empty
	Error  string
	Clock  Clock
}

// Status asks all servers at once. It skips servers that have left the cluster and have no replicas.
func (a *Access) Status(ctx context.Context) []Answer {
	a.refresh(ctx)
	return askAll(ctx, a.client, a.present(), a.cfg.Timeout)
}

// present returns the servers that have not left the cluster, or still have replicas.
func (a *Access) present() (servers []topology.Server) {
	plan := a.Cluster()
	for _, s := range plan.Servers {
		if s.State != topology.StorageLeft || len(plan.ReplicasOn(s.Name)) > 0 {
			servers = append(servers, s)
		}
	}
	return servers
}

// changePatience is the time limit of a change at a server, which must ask the registry and all other
// servers.
const changePatience = 30 * time.Second

// Ask sends a request to the server with a name. Without a name it selects a server that answers, if possible
// one that reaches the registry. After a timeout the request may have been executed.
func (a *Access) Ask(ctx context.Context, server string, q *Request, into any) error {
	var s *topology.Server
	if server == "" {
		s = a.responsive(ctx)
	} else if s = a.Cluster().Server(server); s == nil {
		return a.Cluster().NoServer(server)
	}
	if s == nil {
		return fmt.Errorf("no server answers in %v", a.cfg.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	return ask(ctx, a.client, s.Address, q, into)
}
