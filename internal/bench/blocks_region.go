package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Timeouts of a server for another one, and of a client for a server. They are long because nothing fails in
// this benchmark.
const (
	nodeTimeout   = 30 * time.Second
	remoteTimeout = 2 * nodeTimeout
)

// storageRegion is a region of storage servers in this process, with its clients.
type storageRegion struct {
	closers []func() error // in the order in which they were opened
	clients []*blockClient
}

// blockClient is one client. It uses its own server while that answers.
type blockClient struct {
	store  block.Store
	number uint64
	last   uint64          // block put
	put    []posix.BlockID // in this round
	buffer []byte
}

// startRegion starts the servers on empty disks below dir.
func startRegion(cfg *BlocksConfig, dir string, copies int) (_ *storageRegion, err error) {
	r := &storageRegion{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	endpoint, caller, err := r.network(cfg.GRPC)
	if err != nil {
		return nil, err
	}
	var members []region.Server
	var ids []multicast.ProcessID
	for i := range storageNodes {
		id := multicast.ProcessID(i + 1)
		ids = append(ids, id)
		members = append(members, region.Server{ID: id, Datacenter: fmt.Sprintf("datacenter-%d", id)})
	}
	for _, id := range ids {
		path := filepath.Join(dir, fmt.Sprint(id))
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		config := disk.DefaultConfig(filepath.Join(path, "blocks"))
		config.NoSync = !cfg.Sync
		store, err := disk.Open(config)
		if err != nil {
			return nil, err
		}
		e := endpoint(id)
		r.closers = append(r.closers, store.Close)
		node, err := region.NewNode(region.Config{
			Self: id, Members: region.Members{Version: 1, Servers: members}, Copies: copies, Disk: store, Peers: e, CallTimeout: nodeTimeout,
			Healing: region.DefaultHealing(),
		})
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		r.closers = append(r.closers, func() error { node.Close(); return nil }, e.Close)
		e.Serve(node.Handle)
	}
	for i := range cfg.Clients {
		first := i % len(ids)
		remote, err := region.NewRemote(caller, slices.Concat(ids[first:], ids[:first]), remoteTimeout)
		if err != nil {
			return nil, err
		}
		r.clients = append(r.clients, &blockClient{store: remote, number: uint64(i + 1)})
	}
	return r, nil
}

// network returns the access of the servers to each other, and of the clients to the servers.
func (r *storageRegion) network(grpc bool) (func(multicast.ProcessID) transport.Endpoint, region.Caller, error) {
	if !grpc {
		local := transport.NewLocal(nil)
		r.closers = append(r.closers, local.Close)
		return local.Endpoint, local.Endpoint(storageNodes + 1), nil
	}
	addresses := map[multicast.ProcessID]string{}
	config := transport.Config{
		Address: "127.0.0.1:0", Resolve: func(p multicast.ProcessID) (string, bool) { a, ok := addresses[p]; return a, ok },
	}
	servers := map[multicast.ProcessID]*transport.Server{}
	for i := range storageNodes {
		s, err := transport.Listen(config)
		if err != nil {
			return nil, nil, err
		}
		r.closers = append(r.closers, s.Close)
		id := multicast.ProcessID(i + 1)
		servers[id], addresses[id] = s, s.Address()
	}
	client := transport.Dial(config)
	r.closers = append(r.closers, client.Close)
	return func(p multicast.ProcessID) transport.Endpoint { return servers[p].Endpoint(p) }, client, nil
}

// close closes all resources, the last opened first.
func (r *storageRegion) close() error {
	var errs []error
	for _, close := range slices.Backward(r.closers) {
		errs = append(errs, close())
	}
	return errors.Join(errs...)
}

// begin starts a round.
func (r *storageRegion) begin() {
	for _, c := range r.clients {
		c.put = c.put[:0]
	}
}

// put stores a new block.
func (r *storageRegion) put(ctx context.Context, client int, data []byte) error {
	c := r.clients[client]
	c.last++
	id := posix.MakeBlockID(0, c.number, c.last)
	if err := c.store.Put(ctx, block.New(id, data)); err != nil {
		return err
	}
	c.put = append(c.put, id)
	return nil
}

// get reads any of the blocks that the client has put in this round.
func (r *storageRegion) get(ctx context.Context, client, size int) error {
	c := r.clients[client]
	data, err := c.store.Get(ctx, c.put[rand.IntN(len(c.put))], c.buffer)
	if err != nil {
		return err
	}
	if c.buffer = data; len(data) != size {
		return fmt.Errorf("a block has %d bytes instead of %d", len(data), size)
	}
	return nil
}

// payload returns incompressible bytes, different ones for each block.
type payload struct {
	size int
	pool []byte
}

var payloadPool = sync.OnceValue(func() []byte {
	pool := make([]byte, 2*block.MaxSize)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(pool) // never fails
	return pool
})

func newPayload(size int) payload { return payload{size, payloadPool()} }

// piece returns the n-th block of a client. The caller must not change it.
func (p *payload) piece(client, n int) []byte {
	at := (client*7919 + n*4099) % (len(p.pool) - p.size)
	return p.pool[at : at+p.size]
}
