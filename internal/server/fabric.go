package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/shm"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/fabric/verbs"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The providers of one-sided memory. With provider shm, operations travel through memory that two servers of
// a host share, and with fabric: auto on streams of the transport to servers of other hosts. With provider
// soft, all operations travel on streams. In both cases the process of the target executes them. With
// provider verbs, a stream carries the set-up of queue pairs and the keys of memory, and RDMA network
// interfaces execute the operations. Each replica opens the device for itself: an error of the device ends
// its driver, and the replica starts again after a wait (Server.run).

// FabricVerbs is the kind of a connection of RDMA network interfaces.
const FabricVerbs = "verbs"

// provider is one-sided memory that also serves the connections of peers.
type provider interface {
	fabric.Endpoint
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// dialRest is the time after a failed attempt to connect to a peer.
const dialRest = 50 * time.Millisecond

// patience is how long the success of a write may stay unreported. TRAM on disks (mode sync) does not wait
// for it: a leader counts the reports of members.
const patience = 2 * time.Millisecond

// verbsLook is how often memory is read without a notification. All writes of TRAM have one, so this only
// bounds the damage of a lost one.
const verbsLook = time.Second

// provide opens the memory of a replica.
func (s memory) provide(own *oneSided, streams transport.Streams, f topology.MemoryFabric) (provider, error) {
	self, reached := fabric.NodeID(s.hosted.process), s.reached()
	dial := func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
		stream, err := streams.Stream(ctx, multicast.ProcessID(peer), wayOf(f))
		if err != nil {
			_ = pause.For(ctx, dialRest) // the caller has ctx, too
			return nil, err
		}
		return stream, nil
	}
	if f == topology.MemoryVerbs {
		endpoint, err := verbs.New(verbs.Config{Self: self, Dial: dial, Device: s.cfg.Device, Look: verbsLook, Report: func(peer fabric.NodeID, err error) {
			if reached(peer, err); err == nil && peer != self {
				own.fabrics.Store(multicast.ProcessID(peer), FabricVerbs)
			}
		}})
		if err != nil {
			return nil, deviceError(err)
		}
		return endpoint, nil
	}
	noted := func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
		stream, err := dial(ctx, peer)
		if ctx.Err() == nil {
			reached(peer, err)
		}
		if err == nil {
			own.fabrics.Store(multicast.ProcessID(peer), transport.FabricOf(stream))
		}
		return stream, err
	}
	if f == topology.MemorySoft {
		return soft.New(soft.Config{Self: self, Dial: noted})
	}
	return shm.New(shm.Config{Self: self, Dial: noted, Introduced: true, Patience: patience}) // the transport introduces
}

// reached returns a function that takes the result of each attempt to reach the memory of a peer. It logs the
// first failure after a success.
func (s memory) reached() func(peer fabric.NodeID, err error) {
	var absent sync.Map
	return func(peer fabric.NodeID, err error) {
		if err == nil {
			absent.Delete(peer)
			return
		}
		if _, before := absent.LoadOrStore(peer, true); !before {
			s.cfg.Logger.Warn("the memory of another replica of the partition cannot be reached: trying again",
				"server", s.cfg.Name, "partition", s.hosted.partition, "process", peer, "error", err)
		}
	}
}

// wayOf returns the connections for streams.
func wayOf(f topology.MemoryFabric) transport.Way {
	switch f {
	case topology.MemoryShm:
		return transport.SharedWay
	case topology.MemorySoft, topology.MemoryVerbs:
		return transport.TCPWay
	}
	return transport.AnyWay
}

// CheckMemory returns the reason why a server cannot use the one-sided memory that a cluster demands, or nil.
// device is the name of the RDMA device; empty: the first one.
func CheckMemory(m topology.Multicast, device string) error {
	if m.Local != topology.LocalTRAM || m.Fabric != topology.MemoryVerbs {
		if device != "" {
			return errors.New("an RDMA device is for clusters with multicast: {local: tram, fabric: verbs}: leave it out")
		}
		return nil
	}
	return deviceError(verbs.Check(device))
}

// deviceError hides the error number of a device: EIO of a file means damage (isUnreadable).
func deviceError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("multicast: fabric: verbs: " + err.Error())
}
