package shm

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabrictest"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
)

// wires are the connections of a cluster. A connection begins with the name of its maker.
type wires struct {
	t       *testing.T
	dir     string
	mu      sync.Mutex
	conns   map[[2]fabric.NodeID][]net.Conn
	cut     map[[2]fabric.NodeID]bool
	streams func(a, b fabric.NodeID) bool // nodes a and b are connected by streams; nil: none
	tcp     map[fabric.NodeID]string      // addresses for streams
	serving sync.WaitGroup
}

var errCut = errors.New("cut")

// between names a pair of nodes.
func between(a, b fabric.NodeID) [2]fabric.NodeID { return [2]fabric.NodeID{min(a, b), max(a, b)} }

func (w *wires) address(id fabric.NodeID) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: filepath.Join(w.dir, strconv.Itoa(int(id)))}
}

func (w *wires) dialer(self fabric.NodeID) func(context.Context, fabric.NodeID) (net.Conn, error) {
	return func(_ context.Context, peer fabric.NodeID) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut[between(self, peer)] {
			return nil, errCut
		}
		network, address := "unix", w.address(peer).Name
		if w.streams != nil && w.streams(self, peer) {
			network, address = "tcp", w.tcp[peer]
		}
		conn, err := net.Dial(network, address)
		if err != nil {
			return nil, err
		}
		w.conns[between(self, peer)] = append(w.conns[between(self, peer)], conn)
		_, err = conn.Write([]byte{byte(self)})
		return conn, err
	}
}

// server is a node that serves connections.
type server interface {
	Serve(peer fabric.NodeID, conn net.Conn) error
}

// listen serves the connections to a node.
func (w *wires) listen(id fabric.NodeID, e server) {
	l, err := net.ListenUnix("unix", w.address(id))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.serving.Go(func() { serveAll(l, e) })
	if w.streams == nil {
		return
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { tcp.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tcp[id] = tcp.Addr().String()
	w.serving.Go(func() { serveAll(tcp, e) })
}

// serveAll serves the connections of a listener until it is closed.
func serveAll(l net.Listener, e server) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			var name [1]byte
			if _, err := io.ReadFull(conn, name[:]); err != nil {
				conn.Close()
				return
			}
			_ = e.Serve(fabric.NodeID(name[0]), conn)
		})
	}
}

// interrupt closes the connections between two nodes and lets none begin.
func (w *wires) interrupt(a, b fabric.NodeID) (mend func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[between(a, b)] = true
	for _, conn := range w.conns[between(a, b)] {
		conn.Close()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cut, between(a, b))
	}
}

// newWires returns no connections; streams is that of wires.
func newWires(t *testing.T, streams func(a, b fabric.NodeID) bool) *wires {
	w := &wires{
		t: t, dir: t.TempDir(), conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{}, streams: streams, tcp: map[fabric.NodeID]string{},
	}
	t.Cleanup(w.serving.Wait)
	return w
}

func cluster(t *testing.T, cfg Config, streams func(a, b fabric.NodeID) bool) *fabrictest.Cluster {
	w := newWires(t, streams)
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
	for id := fabric.NodeID(1); id <= 3; id++ {
		cfg.Self, cfg.Dial = id, w.dialer(id)
		e, err := New(cfg)
		require.NoError(t, err)
		w.listen(id, e)
		c.Nodes[id] = e
	}
	t.Cleanup(func() {
		for _, e := range c.Nodes {
			e.Close()
		}
	})
	return c
}

func always(a, b fabric.NodeID) bool { return true }

// TestConformance runs the suite on nodes that sleep and nodes that spin, with rings in which large
// operations do not fit, and on nodes that share memory with no other node or with one of two.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     Config
		streams func(a, b fabric.NodeID) bool
	}{
		"Sleep":            {},
		"Spin":             {cfg: Config{Spin: 50 * time.Microsecond}},
		"SmallRings":       {cfg: Config{Ring: minRing}},
		"Streams":          {streams: always},
		"StreamsSmall":     {cfg: Config{Ring: minRing}, streams: always},
		"StreamsSpin":      {cfg: Config{Spin: 50 * time.Microsecond}, streams: always},
		"StreamsToThird":   {streams: func(a, b fabric.NodeID) bool { return max(a, b) == 3 }},
		"StreamsAlternate": {streams: alternate()},
		"Patience":         {cfg: Config{Patience: 2 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			fabrictest.Run(t, func(t *testing.T) *fabrictest.Cluster { return cluster(t, c.cfg, c.streams) })
		})
	}
}

// alternate makes each second connection a stream, so nodes connect again in the other way.
func alternate() func(a, b fabric.NodeID) bool {
	var n atomic.Uint64
	return func(fabric.NodeID, fabric.NodeID) bool { return n.Add(1)%2 == 0 }
}

// TestStreamsAreThoseOfSoft: a node without shared memory talks to nodes of provider soft.
func TestStreamsAreThoseOfSoft(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T) *fabrictest.Cluster {
		w := newWires(t, always)
		c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
		mixed, err := New(Config{Self: 1, Dial: w.dialer(1)})
		require.NoError(t, err)
		w.listen(1, mixed)
		c.Nodes[1] = mixed
		for id := fabric.NodeID(2); id <= 3; id++ {
			e, err := soft.New(soft.Config{Self: id, Dial: w.dialer(id)})
			require.NoError(t, err)
			w.listen(id, e)
			c.Nodes[id] = e
		}
		t.Cleanup(func() {
			for _, e := range c.Nodes {
				e.Close()
			}
		})
		return c
	})
}

// TestHostileStream: bytes that are no operations end a stream, and a target that does not admit is lost.
func TestHostileStream(t *testing.T) {
	e, closed := victim(t, Config{})
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- e.Serve(2, there) }()
	require.NoError(t, awaitAdmission(here, time.Now().Add(time.Minute)))
	write := remote.Encode(nil, &fabric.Op{Region: 1, Data: make([]byte, 8)}) // it has no right to region 1
	_, err := here.Write(append(append(write, "12345678"...), append([]byte{9}, make([]byte, remote.HeaderSize)...)...))
	require.NoError(t, err)
	require.ErrorContains(t, result(t, done), "kind 9")
	got := make([]byte, 64)
	closed.Load(0, got)
	require.Equal(t, make([]byte, 64), got)

	here, there = net.Pipe()
	e, _ = victim(t, Config{Timeout: time.Hour, Dial: func(context.Context, fabric.NodeID) (net.Conn, error) { return here, nil }})
	go func() { _, _ = there.Write([]byte("b")) }()
	require.Equal(t, fabric.Lost, post(t, e, fabric.Op{Peer: 2, Region: 1, Data: []byte{1}}).Status)
	_, err = there.Read(make([]byte, 1))
	require.Error(t, err, "the initiator has not closed the stream")
}

// TestSilentStream: a peer that takes no bytes of a stream, or no operation, is lost after a time.
func TestSilentStream(t *testing.T) {
	for name, size := range map[string]int{"takes nothing": 1 << 20, "answers nothing": 8} {
		here, there := net.Pipe()
		e, _ := victim(t, Config{Timeout: 50 * time.Millisecond, Dial: func(context.Context, fabric.NodeID) (net.Conn, error) { return here, nil }})
		go func() {
			_, _ = there.Write([]byte{streamAdmission})
			if size < 1<<20 {
				_, _ = io.Copy(io.Discard, there)
			}
		}()
		require.Equal(t, fabric.Lost, post(t, e, fabric.Op{Peer: 2, Region: 1, Data: make([]byte, size)}).Status, name)
		there.Close()
	}
}

// TestNotify: an endpoint calls its application after events of each kind, without Wait: after a write of a
// peer, after the success of its own writes, for which the target sends no bell, and after a loss.
func TestNotify(t *testing.T) {
	for name, streams := range map[string]func(a, b fabric.NodeID) bool{"memory": nil, "stream": always} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, Config{Patience: 5 * time.Millisecond}, streams)
			events, notify := map[fabric.NodeID]chan fabric.Events{}, map[fabric.NodeID]func(){}
			for id, e := range c.Nodes {
				to := make(chan fabric.Events, 100)
				events[id] = to
				var polls sync.Mutex
				notify[id] = func() {
					polls.Lock()
					defer polls.Unlock()
					var found fabric.Events
					if e.Poll(&found); found.Any() {
						to <- found
					}
				}
				e.(*Endpoint).Notify(notify[id])
			}
			_, err := c.Nodes[2].Register(1, 64)
			require.NoError(t, err)
			require.NoError(t, c.Nodes[2].Grant(1, 1, fabric.Writable))
			for token := range uint64(3) {
				require.NoError(t, c.Nodes[1].Post(fabric.Op{Token: token, Peer: 2, Region: 1, Data: make([]byte, 8), Notify: true}))
				require.EqualValues(t, 1, (<-events[2]).Landed[0].From)
				require.Equal(t, fabric.Completion{Token: token, Kind: fabric.Write, Peer: 2, Region: 1}, (<-events[1]).Completions[0])
			}
			c.Cut(1, 2)
			require.NoError(t, c.Nodes[1].Post(fabric.Op{Peer: 2, Region: 1, Data: make([]byte, 8)}))
			notify[1]() // Post itself may have found the loss
			found := <-events[1]
			require.Equal(t, fabric.Lost, found.Completions[0].Status)
		})
	}
}
