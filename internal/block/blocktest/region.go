package blocktest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// CallTimeout is the CallTimeout of the nodes of a Region.
const CallTimeout = 2 * time.Second

// Healing returns the healing of the nodes of a Region: it finds and repairs all faults within minutes.
func Healing() region.Healing {
	h := region.DefaultHealing()
	h.DownAfter, h.RepairInterval, h.RepairPause = 20*time.Second, 2*time.Minute, time.Second
	h.ScrubPause, h.ScrubBytes = 5*time.Minute, 1<<20
	return h
}

// Impatient returns a healing that repairs a region within seconds.
func Impatient() region.Healing {
	return region.Healing{
		PingInterval: 100 * time.Millisecond, DownAfter: time.Second,
		RepairInterval: time.Second, RepairPause: 50 * time.Millisecond, RepairBytes: 256 << 20,
		ScrubPause: time.Second, ScrubBytes: 256 << 20,
	}
}

// Region is a DHT in one process. It is the region.Caller of its clients. Its servers are numbered from 1 and
// spread over three datacenters. Run starts their healing; without it they only answer.
type Region struct {
	Network
	Ring   *ring.Ring // of the first members
	Copies int
	// Healing is the healing of servers that are started from now on.
	Healing region.Healing
	Disks   map[multicast.ProcessID]region.Disk // GUARDED_BY mu, once servers are added while others run
	Log     *slog.Logger                        // of the nodes
	// Answered, if it is set, is called when a server has answered a request, before the answer is sent. If
	// it returns an error, the caller gets that in place of the answer. from is 0 for a client. Answered must
	// be set before servers run.
	Answered func(from, to multicast.ProcessID, request []byte) error

	mu      sync.Mutex
	servers map[multicast.ProcessID]*server // GUARDED_BY mu
}

// server is one process, or the disk of a crashed one.
type server struct {
	process
	ended sync.WaitGroup

	mu    sync.Mutex
	saved region.Members // GUARDED_BY mu; on its disk
}

// process is a server from one start to its end.
type process struct {
	node  *region.Node
	alive context.Context // ends when the process does
	kill  context.CancelFunc
}

// Datacenter returns the datacenter of a server.
func Datacenter(server multicast.ProcessID) string { return fmt.Sprintf("dc%d", (server-1)%3) }

// NewRegion makes a region with a server for each disk and this many copies.
func NewRegion(t testing.TB, copies int, disks ...region.Disk) *Region {
	r := &Region{
		Copies:  copies,
		Healing: Healing(),
		Disks:   make(map[multicast.ProcessID]region.Disk),
		servers: make(map[multicast.ProcessID]*server),
	}
	members := region.Members{Version: 1}
	var staying []ring.Member
	for i := range disks {
		id := multicast.ProcessID(i + 1)
		members.Servers = append(members.Servers, region.Server{ID: id, Datacenter: Datacenter(id)})
		staying = append(staying, ring.Member{ID: id, Datacenter: Datacenter(id)})
	}
	var err error
	r.Ring, err = ring.New(staying)
	require.NoError(t, err)
	for i, m := range staying {
		r.Add(t, m.ID, members, disks[i])
	}
	return r
}

// NewMemoryRegion makes a region of n servers in memory that keeps 3 copies.
func NewMemoryRegion(t testing.TB, n int) *Region {
	disks := make([]region.Disk, n)
	for i := range disks {
		disks[i] = NewMemory(Big)
	}
	return NewRegion(t, 3, disks...)
}

// Add starts a server with these members; it is one of them or becomes one later.
func (r *Region) Add(t testing.TB, id multicast.ProcessID, members region.Members, disk region.Disk) {
	s := &server{saved: members}
	p := r.boot(t, id, s, disk)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.process, r.Disks[id], r.servers[id] = p, disk, s
}

// boot makes the process of a server with its saved members.
func (r *Region) boot(t testing.TB, id multicast.ProcessID, s *server, disk region.Disk) (p process) {
	s.mu.Lock()
	members := s.saved
	s.mu.Unlock()
	var err error
	p.node, err = region.NewNode(region.Config{
		Self: id, Members: members, Copies: r.Copies, Disk: disk, Peers: &link{r, id}, CallTimeout: CallTimeout,
		Healing: r.Healing, Save: s.save, Log: r.Log,
	})
	require.NoError(t, err)
	p.alive, p.kill = context.WithCancel(context.Background())
	return p
}

func (s *server) save(m region.Members) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = m
	return nil
}

// process returns the process of a server; a crashed one is not alive.
func (r *Region) process(id multicast.ProcessID) (process, *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.servers[id]
	return s.process, &s.ended
}

// Disk returns the disk of a server; nil if there is none.
func (r *Region) Disk(id multicast.ProcessID) region.Disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Disks[id]
}

// SetDisk gives a crashed server another disk.
func (r *Region) SetDisk(id multicast.ProcessID, disk region.Disk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Disks[id] = disk
}

// Node returns the node of a server; nil if it has crashed.
func (r *Region) Node(id multicast.ProcessID) *region.Node {
	if p, _ := r.process(id); p.alive.Err() == nil {
		return p.node
	}
	return nil
}

// Run lets servers keep the region whole, until they crash.
func (r *Region) Run(ids ...multicast.ProcessID) {
	for _, id := range ids {
		p, ended := r.process(id)
		ended.Go(func() { p.node.Run(p.alive) })
	}
}

// Crash ends the process of a server and all its work. Its disk stays.
func (r *Region) Crash(id multicast.ProcessID) {
	p, ended := r.process(id)
	p.kill()
	ended.Wait()
	p.node.Close()
}

// Restart starts the process of a crashed server.
func (r *Region) Restart(t testing.TB, id multicast.ProcessID) {
	r.mu.Lock()
	s, disk := r.servers[id], r.Disks[id]
	r.mu.Unlock()
	p := r.boot(t, id, s, disk)
	r.mu.Lock()
	s.process = p
	r.mu.Unlock()
	r.Run(id)
}

// Close crashes all servers.
func (r *Region) Close() {
	r.mu.Lock()
	var ids []multicast.ProcessID
	for id := range r.servers {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	for _, id := range ids {
		r.Crash(id)
	}
}

// Client returns the store of a client near the first server of the region.
func (r *Region) Client(t testing.TB) *region.Remote {
	var nodes []multicast.ProcessID
	for _, m := range r.Ring.Members() {
		nodes = append(nodes, m.ID)
	}
	remote, err := region.NewRemote(r, nodes, 4*CallTimeout)
	require.NoError(t, err)
	return remote
}

// Call implements region.Caller, for clients.
func (r *Region) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return (&link{r, 0}).Call(ctx, to, request)
}

// link is the region.Caller of one process; 0: of a client.
type link struct {
	region *Region
	from   multicast.ProcessID
}

// Call implements region.Caller.
func (l *link) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	r := l.region
	if err := r.pass(ctx, l.from, to); err != nil {
		return nil, err
	}
	if r.Disk(to) == nil {
		return nil, ErrDown // no such server
	}
	s, _ := r.process(to)
	if s.alive.Err() != nil {
		return nil, ErrDown
	}
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)()
	reply, err := s.node.Handle(doing, request)
	if s.alive.Err() != nil {
		return nil, ErrDown
	}
	if err == nil && r.Answered != nil {
		err = r.Answered(l.from, to, request)
	}
	if err != nil {
		return nil, err
	}
	return reply, r.pass(ctx, to, l.from)
}
