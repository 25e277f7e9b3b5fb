package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/logged"
)

// world is a network that the conformance suite can use and disturb.
type world interface {
	endpoint(id multicast.ProcessID) Endpoint
	disturb() // break all connections
	close()
}

// worlds are the implementations under test. All run in a bubble.
var worlds = map[string]func(t *testing.T) world{
	"Local": func(t *testing.T) world { return localWorld{NewLocal(nil)} },
	"LocalDelayed": func(t *testing.T) world {
		return localWorld{NewLocal(func(from, to multicast.ProcessID) time.Duration {
			return time.Duration(from+2*to) * time.Millisecond
		})}
	},
	"Framed":    func(t *testing.T) world { return newTCPWorld(t, nil) },
	"FramedTLS": func(t *testing.T) world { return newTCPWorld(t, newAuthority(t, "prod").server("n1")) },
	"GRPC":      func(t *testing.T) world { return newTCPWorld(t, nil, old, old, old) },
	"GRPCTLS":   func(t *testing.T) world { return newTCPWorld(t, newAuthority(t, "prod").server("n1"), old, old, old) },
	"Mixed":     func(t *testing.T) world { return newTCPWorld(t, nil, nil, old, nil) },
	"Shared":    func(t *testing.T) world { return newSharedWorld(t) },
	"SharedMix": func(t *testing.T) world { return newSharedWorld(t, 1) },
	"MixedTLS":  func(t *testing.T) world { return newTCPWorld(t, newAuthority(t, "prod").server("n1"), old, nil, old) },
}

type localWorld struct{ *Local }

func (w localWorld) endpoint(id multicast.ProcessID) Endpoint { return w.Endpoint(id) }
func (w localWorld) disturb()                                 {}
func (w localWorld) close()                                   { _ = w.Close() }

// old are the protocols of servers and clients without the framed protocol.
var old = []string{protocol}

// tcpWorld has three servers; process p is at the server p%3 unless it has moved. The addresses of the
// processes from 100 on are unknown.
type tcpWorld struct {
	t           *testing.T
	pipes       *pipes
	servers     []*Server
	credentials *identity.Credentials // nil: no TLS
	protocols   [3][]string           // of the servers; nil: all
	sharing     sharing               // nil: none
	unshared    [3]bool               // servers without shared memory
	log         logged.Text

	mu    sync.Mutex
	moved map[multicast.ProcessID]string
}

const unknownProcess multicast.ProcessID = 100

func address(i int) string { return fmt.Sprintf("127.0.0.1:%d", 7000+i) }

func (w *tcpWorld) resolve(id multicast.ProcessID) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.moved[id]; ok {
		return a, true
	}
	return address(int(id % 3)), id < unknownProcess
}

// move changes the known address of a process.
func (w *tcpWorld) move(id multicast.ProcessID, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved[id] = address
}

func newTCPWorld(t *testing.T, credentials *identity.Credentials, protocols ...[]string) *tcpWorld {
	w := &tcpWorld{t: t, credentials: credentials, moved: map[multicast.ProcessID]string{}, pipes: newPipes()}
	copy(w.protocols[:], protocols)
	for i := range 3 {
		w.servers = append(w.servers, w.listen(i))
	}
	return w
}

func (w *tcpWorld) listen(i int) *Server {
	s, err := Listen(Config{
		Address: address(i), Resolve: w.resolve, Credentials: w.credentials, Logger: w.log.Logger(), listen: w.pipes.listen, dial: w.pipes.dial,
		protocols: w.protocols[i], SharedMemory: w.sharing != nil && !w.unshared[i], sharing: w.sharing,
	})
	require.NoError(w.t, err)
	return s
}

// dial makes a client of the world.
func (w *tcpWorld) dial(credentials *identity.Credentials) *Client {
	return Dial(Config{Resolve: w.resolve, Credentials: credentials, dial: w.pipes.dial})
}

// grpcTo returns a gRPC client as a server of the world would use it.
func (w *tcpWorld) grpcTo(from *Server, address string) (client wire.TransportClient, done func()) {
	p := newGRPCProvider(from.pool.cfg)
	conn, err := p.conn(address)
	require.NoError(w.t, err)
	return wire.NewTransportClient(conn), func() { require.NoError(w.t, p.close()) }
}

// endpoint returns the endpoint of a process at the server that has the known address of the process.
func (w *tcpWorld) endpoint(id multicast.ProcessID) Endpoint {
	at, _ := w.resolve(id)
	for i, s := range w.servers {
		if address(i) == at {
			return s.Endpoint(id)
		}
	}
	w.t.Fatalf("no server at %s", at)
	return nil
}
func (w *tcpWorld) disturb() { w.pipes.breakAll() }
func (w *tcpWorld) close() {
	for _, s := range w.servers {
		require.NoError(w.t, s.Close())
	}
}

// pipes is a TCP network of queues in memory.
type pipes struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	conns     []net.Conn
}

func newPipes() *pipes { return &pipes{listeners: map[string]*bufconn.Listener{}} }

type pipeListener struct {
	*bufconn.Listener
	addr net.Addr
}

func (l pipeListener) Addr() net.Addr { return l.addr }

func (p *pipes) listen(address string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	p.listeners[address] = bufconn.Listen(64 << 10)
	return pipeListener{p.listeners[address], addr}, nil
}

func (p *pipes) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.listeners[address]
	if l == nil {
		return nil, errors.New("connection refused")
	}
	conn, err := l.DialContext(ctx)
	if err == nil {
		p.conns = append(p.conns, conn)
	}
	return conn, err
}

// rename makes a listener reachable at another address only.
func (p *pipes) rename(from, to string) {
	p.mu.Lock()
	p.listeners[to] = p.listeners[from]
	delete(p.listeners, from)
	p.mu.Unlock()
	p.breakAll()
}

func (p *pipes) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// receiver wraps links: each frame leaves at once, and a goroutine can wait for arrivals.
type receiver struct {
	Links
	arrived chan struct{}
}

func receiving(links Links) *receiver {
	r := &receiver{Links: links, arrived: make(chan struct{}, 1)}
	links.Notify(func(bool) {
		select {
		case r.arrived <- struct{}{}:
		default:
		}
	})
	r.arrived <- struct{}{}
	return r
}

func (r *receiver) Send(to multicast.ProcessID, frame []byte) error {
	defer r.Flush()
	return r.Links.Send(to, frame)
}

// Receive waits until a frame has arrived, and returns all that have arrived, up to len(into).
func (r *receiver) Receive(ctx context.Context, into []multicast.Frame) (int, error) {
	for {
		if n := len(r.Take(into[:0], len(into))); n > 0 {
			r.Flush()
			return n, nil
		}
		select {
		case <-r.arrived:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// process sends numbered frames and checks the numbers of received frames.
type process struct {
	t        *testing.T
	id       multicast.ProcessID
	life     uint64
	endpoint Endpoint
	links    *receiver
	ctx      context.Context
	kill     context.CancelFunc
	done     chan struct{}

	mu   sync.Mutex
	out  map[multicast.ProcessID]*stretch // since our last Accept
	in   map[multicast.ProcessID]*stretch // since the last start
	seen int                              // frames
}

// stretch is the part of a link that belongs to one session.
type stretch struct {
	life, session uint64
	next          uint64
}

func (s stretch) frame(size int) []byte {
	return append(fmt.Appendf(nil, "%d %d %d ", s.life, s.session, s.next), make([]byte, size)...)
}

// boot starts a process that accepts and receives everything.
func boot(t *testing.T, w world, id multicast.ProcessID, life uint64) *process {
	p := open(t, w, id, life)
	go p.receive()
	return p
}

// open starts a process that does not receive yet.
func open(t *testing.T, w world, id multicast.ProcessID, life uint64) *process {
	p := &process{t: t, id: id, life: life, endpoint: w.endpoint(id), done: make(chan struct{}),
		out: map[multicast.ProcessID]*stretch{}, in: map[multicast.ProcessID]*stretch{}}
	links, err := p.endpoint.Links(life)
	require.NoError(t, err)
	p.links = receiving(links)
	p.ctx, p.kill = context.WithCancel(t.Context())
	return p
}

func (p *process) receive() {
	defer close(p.done)
	var into [7]multicast.Frame
	for {
		n, err := p.links.Receive(p.ctx, into[:])
		if err != nil {
			return
		}
		for _, f := range into[:n] {
			p.take(f)
		}
	}
}

// take checks a frame: the frames between two starts are a prefix of the frames sent between two Accepts.
func (p *process) take(f multicast.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.Data == nil {
		p.links.Accept(f.Peer)
		session := uint64(1)
		if old := p.out[f.Peer]; old != nil {
			session += old.session
		}
		p.out[f.Peer] = &stretch{life: p.life, session: session}
		p.in[f.Peer] = &stretch{}
		return
	}
	p.seen++
	var got stretch
	_, err := fmt.Sscanf(string(f.Data), "%d %d %d ", &got.life, &got.session, &got.next)
	want := p.in[f.Peer]
	switch {
	case err != nil:
		p.t.Errorf("process %d: frame %q from %d: %v", p.id, f.Data, f.Peer, err)
	case want == nil:
		p.t.Errorf("process %d: a frame from %d before the link's start", p.id, f.Peer)
	case want.next == 0:
		want.life, want.session = got.life, got.session
	}
	if want != nil {
		if got != *want {
			p.t.Errorf("process %d: from %d came %v, want %v", p.id, f.Peer, got, *want)
		}
		want.next++
	}
}

// send sends the next frame of the link's present session.
func (p *process) send(to multicast.ProcessID, size int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.out[to]
	if s == nil {
		return p.links.Send(to, stretch{}.frame(size)) // must be lost
	}
	err := p.links.Send(to, s.frame(size))
	if err == nil {
		s.next++
	}
	return err
}

// stop ends a process as a crash would.
func (p *process) stop() {
	p.kill()
	require.NoError(p.t, p.endpoint.Close())
	<-p.done
}

// requireInStep checks that all frames of the last session have arrived.
func requireInStep(t *testing.T, from, to *process) {
	t.Helper()
	from.mu.Lock()
	defer from.mu.Unlock()
	if from != to {
		to.mu.Lock()
		defer to.mu.Unlock()
	}
	require.NotNil(t, from.out[to.id], "%d has no link to %d", from.id, to.id)
	require.NotNil(t, to.in[from.id], "%d has no link from %d", to.id, from.id)
	require.Equal(t, from.out[to.id].next, to.in[from.id].next, "frames sent and received from %d to %d", from.id, to.id)
	if to.in[from.id].next > 0 {
		require.Equal(t, from.out[to.id], to.in[from.id])
	}
}
