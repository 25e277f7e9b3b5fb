package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// A partition whose order is TRAM's works in one-sided memory (package fabric). The memory of a replica lives
// as long as its driver: a replica that restarts has a new one, and its peers connect again. The operations
// travel on streams of the transport, on which both servers have proven their identity by TLS, or through
// memory that they share over such a stream; with RDMA only the set-up of queue pairs does (fabric.go). A
// peer is admitted as a process only if the cluster places that process, as a replica of the same partition,
// on the peer's server: no client and no other server can write there.
//
// TRAM syncs the log in each step that has records, with durability os, too. So a loss of power takes none of
// its promises; a replica that is marked as amnesiac (amnesia.go) has no vote all the same until it has
// caught up.

// errStranger is the error for a peer that may not write to the memory of a replica.
var errStranger = errors.New("the cluster places no such replica of the partition on that server")

// oneSided is the one-sided memory of a replica, with the order that works in it.
type oneSided struct {
	endpoint fabric.Endpoint
	core     *onesided.Core // for turns, and between them
	fabrics  sync.Map       // the kind of the last connection to a peer, a string, by its process
}

// memory is a replica on a server whose partition is ordered in one-sided memory.
type memory struct {
	*Server
	hosted *hosted
}

// newCore makes the order of the partition in the memory.
func (s memory) newCore(plan *topology.Cluster, delivered multicast.Position, incarnation uint64) (*onesided.Core, error) {
	h := s.hosted
	if s.cfg.Durability == wal.Memory {
		return nil, errors.New("multicast: local: tram needs durability os or sync: a replica that restarts would have lost its promises")
	}
	p := &plan.Partitions[h.partition]
	return onesided.New(onesided.Config{
		Self: h.process, Group: p.Group(), Replaced: plan.Replacements(p), Delivered: delivered, Amnesiac: h.marked, Seed: incarnation,
	})
}

// open opens the memory for a core, and takes operations of the other replicas from now on.
func (s memory) open(core *onesided.Core, f topology.MemoryFabric) error {
	h := s.hosted
	streams, ok := h.endpoint.(transport.Streams)
	if !ok {
		return errors.New("multicast: local: tram needs servers in processes of their own: the network of this one carries no operations on memory")
	}
	own := &oneSided{core: core}
	endpoint, err := s.provide(own, streams, f)
	if err != nil {
		return err
	}
	own.endpoint, h.memory = endpoint, own
	for _, region := range core.Regions() {
		m, err := endpoint.Register(region.ID, region.Size)
		if err != nil {
			return fmt.Errorf("one-sided memory: %v", err) // without its error number: see deviceError
		}
		core.Attach(region.ID, m)
	}
	streams.ServeStreams(func(from multicast.ProcessID, peer *identity.Identity, stream net.Conn) {
		err := s.admit(from, peer)
		if err == nil {
			err = endpoint.Serve(fabric.NodeID(from), stream)
		}
		_ = stream.Close() // the peer connects again
		if err != nil {
			s.cfg.Logger.Debug("operations on the memory of a replica end",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "from", from, "error", err)
		}
	})
	return nil
}

// admit returns the reason why a peer may not act for a process on the memory, or nil.
func (s memory) admit(from multicast.ProcessID, peer *identity.Identity) error {
	replicas := s.plan.Load().Partitions[s.hosted.partition].Replicas
	i := slices.IndexFunc(replicas, func(r topology.Replica) bool { return r.Process == from })
	if i < 0 || peer != nil && (peer.Role != identity.Server || peer.Name != replicas[i].Server) {
		return fmt.Errorf("process %d of %v: %w", from, peer, errStranger)
	}
	return nil
}

// MemoryStatus is the state of the one-sided memory of a replica.
type MemoryStatus struct {
	tram.Usage
	Revocations int // of the rights of others, since the replica began
	// Fabrics are the kinds of the connections to other replicas: transport.FabricTCP, transport.FabricShm or
	// FabricVerbs. Replicas that were not connected are missing.
	Fabrics map[multicast.ProcessID]string
}

// status is called between two turns. The status of no memory is nil.
func (m *oneSided) status() *MemoryStatus {
	if m == nil {
		return nil
	}
	status := &MemoryStatus{Usage: m.core.Usage(), Revocations: m.core.Stats().Revoked, Fabrics: map[multicast.ProcessID]string{}}
	m.fabrics.Range(func(peer, kind any) bool {
		status.Fabrics[peer.(multicast.ProcessID)] = kind.(string)
		return true
	})
	return status
}
