package blocktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// CallTimeout is the CallTimeout of the nodes of a Region.
const CallTimeout = 2 * time.Second

// ErrDown is what a call to a server that is down gives.
var ErrDown = errors.New("connection refused")

// Region is a DHT in one process. It is the block.Caller of its servers, numbered from
// 1 and spread over three datacenters, and of its clients.
type Region struct {
	Ring  *ring.Ring
	Disks map[multicast.ProcessID]block.Disk
	nodes map[multicast.ProcessID]*block.Node

	mu   sync.Mutex
	down map[multicast.ProcessID]bool // GUARDED_BY mu
	hung map[multicast.ProcessID]bool // GUARDED_BY mu
}

// NewRegion makes a region with a server for each disk and this many copies.
func NewRegion(t testing.TB, copies int, disks ...block.Disk) *Region {
	r := &Region{
		Disks: make(map[multicast.ProcessID]block.Disk),
		nodes: make(map[multicast.ProcessID]*block.Node),
		down:  make(map[multicast.ProcessID]bool),
		hung:  make(map[multicast.ProcessID]bool),
	}
	var members []ring.Member
	for i := range disks {
		members = append(members, ring.Member{ID: multicast.ProcessID(i + 1), Datacenter: fmt.Sprintf("dc%d", i%3)})
	}
	var err error
	r.Ring, err = ring.New(members)
	require.NoError(t, err)
	for i, m := range members {
		r.Disks[m.ID] = disks[i]
		r.nodes[m.ID], err = block.NewNode(block.NodeConfig{
			Self: m.ID, Ring: r.Ring, Copies: copies, Disk: disks[i], Peers: r, CallTimeout: CallTimeout,
		})
		require.NoError(t, err)
	}
	return r
}

// Client is the region as seen by a client near the first of its servers.
func (r *Region) Client(t testing.TB) *block.Remote {
	var nodes []multicast.ProcessID
	for _, m := range r.Ring.Members() {
		nodes = append(nodes, m.ID)
	}
	remote, err := block.NewRemote(r, nodes, 4*CallTimeout)
	require.NoError(t, err)
	return remote
}

// Call implements block.Caller.
func (r *Region) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	r.mu.Lock()
	down, hung := r.down[to], r.hung[to]
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case down:
		return nil, ErrDown
	case hung:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.nodes[to].Handle(ctx, request)
}

// SetDown makes calls to a server fail at once.
func (r *Region) SetDown(server multicast.ProcessID, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[server] = down
}

// SetHung makes calls to a server wait for the end of their context.
func (r *Region) SetHung(server multicast.ProcessID, hung bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung[server] = hung
}
