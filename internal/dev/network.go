package dev

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// network gives processes their access to each other.
type network interface {
	endpoint(server string, process multicast.ProcessID) transport.Endpoint
	client(region topology.Region) attach.Caller
	// join gives a server that is new its access to the network.
	join(server string, region topology.Region, process multicast.ProcessID) error
	close() error
}

func (c *Cluster) openNetwork() (network, error) {
	if c.cfg.GRPC {
		return listen(c.Plan, c.cfg)
	}
	m := &memory{regions: map[multicast.ProcessID]topology.Region{}, nextClient: firstClient}
	eachProcess(c.Plan, func(server string, p multicast.ProcessID) {
		m.regions[p] = c.Plan.Server(server).Region
	})
	var delay func(from, to multicast.ProcessID) time.Duration
	if c.cfg.WAN {
		delay = m.delay
	}
	m.local = transport.NewLocal(delay)
	return m, nil
}

// eachProcess names each process of the plan with its server.
func eachProcess(plan *topology.Cluster, do func(server string, p multicast.ProcessID)) {
	for _, s := range plan.Servers {
		do(s.Name, s.Storage)
	}
	for _, p := range plan.Partitions {
		for _, r := range p.Replicas {
			do(r.Server, r.Process)
		}
	}
}

// Cut cuts regions off: nothing gets between them, with the clients in them, and the others any more, until another Cut.
// Without regions it heals the network. Only links in memory can be cut.
func (c *Cluster) Cut(regions ...topology.Region) error {
	m, ok := c.network.(*memory)
	if !ok {
		return errors.New("only links in memory can be cut: use them without the gRPC transport")
	}
	m.cut(slices.Clone(regions))
	return nil
}

// firstClient is the first process id of a client; servers' processes are numbered from 1.
const firstClient multicast.ProcessID = 1 << 24

// memory is a network of queues in this process.
type memory struct {
	local *transport.Local

	mu         sync.RWMutex
	regions    map[multicast.ProcessID]topology.Region
	nextClient multicast.ProcessID
}

func (m *memory) delay(from, to multicast.ProcessID) time.Duration {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return topology.Delay(m.regions[from], m.regions[to])
}

func (m *memory) join(_ string, region topology.Region, process multicast.ProcessID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regions[process] = region
	return nil
}

func (m *memory) endpoint(_ string, p multicast.ProcessID) transport.Endpoint {
	return m.local.Endpoint(p)
}

func (m *memory) client(region topology.Region) attach.Caller {
	m.mu.Lock()
	id := m.nextClient
	m.nextClient++
	m.regions[id] = region
	m.mu.Unlock()
	return m.local.Endpoint(id)
}

// cut parts the processes in some regions from those in all others.
func (m *memory) cut(off []topology.Region) {
	if len(off) == 0 {
		m.local.Cut(nil)
		return
	}
	m.local.Cut(func(a, b multicast.ProcessID) bool {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return slices.Contains(off, m.regions[a]) != slices.Contains(off, m.regions[b])
	})
}

func (m *memory) close() error { return m.local.Close() }

// loopback is a network of gRPC servers, one for each server of the cluster, on free ports
// of 127.0.0.1.
type loopback struct {
	config transport.Config

	mu        sync.RWMutex
	servers   map[string]*transport.Server   // GUARDED_BY mu
	addresses map[multicast.ProcessID]string // GUARDED_BY mu; complete before any process has an endpoint, but for those that join
}

func listen(plan *topology.Cluster, cfg Config) (_ *loopback, err error) {
	n := &loopback{servers: map[string]*transport.Server{}, addresses: map[multicast.ProcessID]string{}}
	n.config = transport.Config{
		Address: "127.0.0.1:0", Logger: cfg.Logger,
		Resolve: n.address,
	}
	for _, s := range plan.Servers {
		if n.servers[s.Name], err = transport.Listen(n.config); err != nil {
			delete(n.servers, s.Name)
			return nil, errors.Join(fmt.Errorf("server %s: %w", s.Name, err), n.close())
		}
	}
	eachProcess(plan, func(server string, p multicast.ProcessID) { n.addresses[p] = n.servers[server].Address() })
	return n, nil
}

func (n *loopback) address(p multicast.ProcessID) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	a, ok := n.addresses[p]
	return a, ok
}

func (n *loopback) join(server string, _ topology.Region, process multicast.ProcessID) error {
	s, err := transport.Listen(n.config)
	if err != nil {
		return fmt.Errorf("server %s: %w", server, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[server], n.addresses[process] = s, s.Address()
	return nil
}

func (n *loopback) endpoint(server string, p multicast.ProcessID) transport.Endpoint {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.servers[server].Endpoint(p)
}

func (n *loopback) client(topology.Region) attach.Caller { return transport.Dial(n.config) }

func (n *loopback) close() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var errs []error
	for _, s := range n.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
