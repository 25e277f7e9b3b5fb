package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// AccessConfig says how a process that is no server finds a cluster.
type AccessConfig struct {
	Servers []string // addresses of some servers: one that answers is enough
	// Certificates of this process: where they are. Empty: the cluster uses none, and listens on loopback only.
	Certificates identity.Files
	Timeout      time.Duration // for a server to answer
	Logger       *slog.Logger
}

// Access is a process's knowledge of a cluster, and its way to the servers. Close it.
type Access struct {
	cfg     AccessConfig
	known   known
	network transport.Config
	client  *transport.Client
	region  topology.Region // of the server that answered first
}

// Connect finds a cluster. The error says of each server why it is of no use.
func Connect(ctx context.Context, cfg AccessConfig) (_ *Access, err error) {
	a := &Access{cfg: cfg, network: transport.Config{Logger: cfg.Logger}}
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
func (a *Access) find(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
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
	for range a.cfg.Servers {
		got := <-answers
		if got.err == nil {
			if got.err = a.take(&got.description); got.err == nil {
				a.region = got.description.Region
				return nil
			}
		}
		errs = append(errs, "  "+got.err.Error())
	}
	slices.Sort(errs)
	return fmt.Errorf("no server of the cluster answers in %v: check that these run and can be reached:\n%s", a.cfg.Timeout, strings.Join(errs, "\n"))
}

// askUntil asks one server for the cluster's description, again while it cannot be reached, until ctx ends. It gives the last error that says
// something.
func (a *Access) askUntil(ctx context.Context, server string) (d Description, err error) {
	for {
		asked := ask(ctx, a.client, server, &Request{Op: Describe}, &d)
		if asked == nil || !errors.Is(asked, transport.ErrUnreachable) {
			if asked == nil || err == nil || ctx.Err() == nil {
				err = asked
			}
			return d, err
		}
		err = asked
		if wait(ctx, patience/4) != nil {
			return d, err
		}
	}
}

// take goes by what a server says of the cluster, if it is newer than what is known.
func (a *Access) take(said *Description) error {
	spec, err := topology.ParseSpec([]byte(said.Spec))
	if err != nil {
		return fmt.Errorf("server %s: description of the cluster: %w", said.Server, err)
	}
	spec.Version = said.Version
	d, err := describe(spec)
	if err != nil {
		return fmt.Errorf("server %s: description of the cluster: %w", said.Server, err)
	}
	_, err = a.known.offer(d)
	return err
}

// Cluster is the cluster as it is known now.
func (a *Access) Cluster() *topology.Cluster { return a.known.now.Load().cluster }

// Name is the cluster's.
func (a *Access) Name() string { return a.known.now.Load().spec.Name }

// Region is that of the server that answered first: mostly the nearest.
func (a *Access) Region() topology.Region { return a.region }

// Close ends the access to the servers; that of clients is their own.
func (a *Access) Close() error { return a.client.Close() }

// ClientConfig is what a mount may choose.
type ClientConfig struct {
	Region       topology.Region
	CacheBytes   int
	Disk         *block.DiskCache // nil: none
	Objects      attach.Objects   // as OpenObjects gives them
	Linearizable bool
	Hard         bool // see client.Config, like
	Resume       *client.State
	Timeout      time.Duration
}

// Client makes a client of the cluster. The caller closes it.
func (a *Access) Client(cfg ClientConfig) (*attach.Client, error) {
	plan := a.Cluster()
	if !slices.Contains(plan.Regions, cfg.Region) {
		return nil, fmt.Errorf("cluster %q has no region %q, only %v", a.Name(), cfg.Region, plan.Regions)
	}
	return attach.New(attach.Config{
		Cluster: plan, Region: cfg.Region, Caller: transport.Dial(a.network), Objects: cfg.Objects,
		CacheBytes: cfg.CacheBytes, Disk: cfg.Disk, Linearizable: cfg.Linearizable, Hard: cfg.Hard, Resume: cfg.Resume, Timeout: cfg.Timeout, Logger: a.cfg.Logger,
	})
}

// followEvery is how often a client asks whether the cluster has changed.
const followEvery = 10 * time.Second

// Follow keeps a client up to date with the cluster until ctx ends.
func (a *Access) Follow(ctx context.Context, c *attach.Client) {
	for wait(ctx, followEvery/2+rand.N(followEvery)) == nil {
		before := a.known.now.Load()
		a.refresh(ctx)
		if now := a.known.now.Load(); now != before {
			c.Update(now.cluster)
			a.cfg.Logger.Info("the cluster has changed", "version", now.spec.Version)
		}
	}
}

// refresh asks servers in any order until one tells what it knows.
func (a *Access) refresh(ctx context.Context) {
	servers := slices.Clone(a.Cluster().Servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	for _, s := range servers {
		if s.State == topology.StorageLeft || ctx.Err() != nil {
			continue
		}
		var d Description
		if err := a.askOne(ctx, s.Address, &Request{Op: Describe}, &d); err != nil {
			continue
		}
		if err := a.take(&d); err != nil {
			a.cfg.Logger.Warn("what a server says of the cluster is of no use", "server", s.Name, "error", err)
			continue
		}
		return
	}
}

func (a *Access) askOne(ctx context.Context, address string, q *Request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	return ask(ctx, a.client, address, q, into)
}

// Answer is what a server said, or why it said nothing.
type Answer struct {
	Server topology.Server
	Status ServerStatus // if Error is empty
	Error  string
}

// Status asks all servers, those that have left the cluster apart, at once.
func (a *Access) Status(ctx context.Context) []Answer {
	a.refresh(ctx)
	plan := a.Cluster()
	var answers []Answer
	for _, s := range plan.Servers {
		if s.State != topology.StorageLeft || len(plan.ReplicasOn(s.Name)) > 0 {
			answers = append(answers, Answer{Server: s})
		}
	}
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() {
			if err := a.askOne(ctx, answers[i].Server.Address, &Request{Op: Status}, &answers[i].Status); err != nil {
				answers[i].Error = err.Error()
			}
		})
	}
	asking.Wait()
	return answers
}

// Ask has the server of that name do something; empty: any that can be reached.
func (a *Access) Ask(ctx context.Context, server string, q *Request, into any) error {
	if server != "" {
		s := a.Cluster().Server(server)
		if s == nil {
			return fmt.Errorf("there is no server %q", server)
		}
		return ask(ctx, a.client, s.Address, q, into)
	}
	var err error
	for _, s := range a.Cluster().Servers {
		if s.State == topology.StorageLeft {
			continue
		}
		if err = ask(ctx, a.client, s.Address, q, into); !errors.Is(err, transport.ErrUnreachable) {
			return err
		}
	}
	return err
}

// Storage gives the storage servers of all regions, as a mount shows them; none if the blocks are in object storage.
func (a *Access) Storage(ctx context.Context) ([]mount.StorageRegion, error) {
	plan := a.Cluster()
	if plan.Objects != nil {
		return nil, nil
	}
	answers := a.Status(ctx)
	plan = a.Cluster()
	var regions []mount.StorageRegion
	for _, name := range plan.Regions {
		region := mount.StorageRegion{Region: name, Copies: plan.Copies, Version: plan.StorageVersion(name)}
		for _, s := range plan.Storage(name) {
			told := mount.StorageServer{Name: s.Name, Datacenter: s.Datacenter, State: string(s.State)}
			i := slices.IndexFunc(answers, func(o Answer) bool { return o.Server.Name == s.Name })
			if i >= 0 && answers[i].Status.Storage != nil {
				told = *answers[i].Status.Storage
			}
			region.Servers = append(region.Servers, told)
		}
		regions = append(regions, region)
	}
	return regions, nil
}

// errByAdmin is why a mount does not change the servers of a cluster.
var errByAdmin = errors.New("the servers of this cluster are changed by 'globalfs admin'")

// JoinStorage fails: an operator starts servers.
func (a *Access) JoinStorage(context.Context, topology.Region) (string, error) { return "", errByAdmin }

// LeaveStorage fails, likewise.
func (a *Access) LeaveStorage(context.Context, string) error { return errByAdmin }
