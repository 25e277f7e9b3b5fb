package dev

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// network connects the processes of the cluster.
type network interface {
	// ofServers returns the network between the servers' processes; nil: loopback.
	ofServers() daemon.Network
	// listener returns the open listener at a server's address, for its first start; nil: the server opens
	// the address itself.
	listener(server string) net.Listener
	client(region topology.Region) attach.Caller
	close() error
}

func (c *Cluster) openNetwork(open listeners) (network, error) {
	l := &loopback{open: open}
	if !c.cfg.GRPC {
		m := &memory{loopback: l, regions: map[multicast.ProcessID]topology.Region{}, nextClient: firstClient}
		var delay func(from, to multicast.ProcessID) time.Duration
		if c.cfg.WAN {
			delay = m.delay
		}
		m.local = transport.NewLocal(delay)
		return m, nil
	}
	credentials, err := identity.Load(identity.FilesIn(c.file.Certificates, identity.Client, clientName), c.cfg.Logger)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.clients = transport.Config{Resolve: c.resolve, Credentials: credentials, Logger: c.cfg.Logger}
	return l, nil
}

// Cut disconnects the processes and clients in the given regions from all others until the next Cut. Without
// regions it heals the network. Only links in memory can be cut. Control calls between servers are not cut.
func (c *Cluster) Cut(regions ...topology.Region) error {
	m, ok := c.network.(*memory)
	if !ok {
		return errors.New("only links in memory can be cut: use them without the gRPC transport")
	}
	m.cut(slices.Clone(regions))
	return nil
}

// loopback is TLS between the servers' addresses.
type loopback struct {
	clients transport.Config

	mu   sync.Mutex
	open listeners // GUARDED_BY mu
}

func (l *loopback) ofServers() daemon.Network { return nil }

func (l *loopback) listener(server string) net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	open, ok := l.open[server]
	if !ok {
		return nil
	}
	delete(l.open, server)
	return open
}

func (l *loopback) client(topology.Region) attach.Caller { return transport.Dial(l.clients) }

// close closes the listeners that no server has taken over.
func (l *loopback) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open.close()
}

// firstClient is the first process id of a client; servers' processes are numbered from 1.
const firstClient multicast.ProcessID = 1 << 24

// memory is a network of queues in this process. Only control calls use the servers' addresses.
type memory struct {
	*loopback
	local *transport.Local

	mu         sync.RWMutex
	regions    map[multicast.ProcessID]topology.Region // GUARDED_BY mu; of all processes that ever had access
	nextClient multicast.ProcessID                     // GUARDED_BY mu
}

func (m *memory) ofServers() daemon.Network { return m }

// Endpoint implements daemon.Network.
func (m *memory) Endpoint(at topology.Region, p multicast.ProcessID) transport.Endpoint {
	m.mu.Lock()
	m.regions[p] = at
	m.mu.Unlock()
	return m.local.Endpoint(p)
}

// Client implements daemon.Network.
func (m *memory) Client(at topology.Region) attach.Caller {
	m.mu.Lock()
	id := m.nextClient
	m.nextClient++
	m.regions[id] = at
	m.mu.Unlock()
	return m.local.Endpoint(id)
}

func (m *memory) client(at topology.Region) attach.Caller { return m.Client(at) }

func (m *memory) delay(from, to multicast.ProcessID) time.Duration {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return topology.Delay(m.regions[from], m.regions[to])
}

// cut disconnects the processes in some regions from those in all others.
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

func (m *memory) close() error { return errors.Join(m.local.Close(), m.loopback.close()) }
