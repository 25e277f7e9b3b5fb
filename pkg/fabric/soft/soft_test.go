package soft

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabrictest"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// wires are the connections of a cluster over loopback TCP. A connection begins with the name of its maker.
type wires struct {
	t         *testing.T
	mu        sync.Mutex
	addresses map[fabric.NodeID]string
	conns     map[[2]fabric.NodeID][]net.Conn
	cut       map[[2]fabric.NodeID]bool
	serving   sync.WaitGroup
}

var errCut = errors.New("cut")

// between names a pair of nodes.
func between(a, b fabric.NodeID) [2]fabric.NodeID { return [2]fabric.NodeID{min(a, b), max(a, b)} }

func (w *wires) dialer(self fabric.NodeID) func(context.Context, fabric.NodeID) (net.Conn, error) {
	return func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut[between(self, peer)] {
			return nil, errCut
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", w.addresses[peer])
		if err != nil {
			return nil, err
		}
		w.conns[between(self, peer)] = append(w.conns[between(self, peer)], conn)
		_, err = conn.Write([]byte{byte(self)})
		return conn, err
	}
}

// listen serves the connections to a node.
func (w *wires) listen(id fabric.NodeID, e *Endpoint) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.addresses[id] = l.Addr().String()
	w.serving.Add(1)
	go func() {
		defer w.serving.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.serving.Add(1)
			go func() {
				defer w.serving.Done()
				var name [1]byte
				if _, err := io.ReadFull(conn, name[:]); err != nil {
					conn.Close()
					return
				}
				_ = e.Serve(fabric.NodeID(name[0]), conn)
			}()
		}
	}()
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

func cluster(t *testing.T, timeout time.Duration) (*fabrictest.Cluster, *wires) {
	w := &wires{
		t: t, addresses: map[fabric.NodeID]string{}, conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{},
	}
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
	t.Cleanup(w.serving.Wait)
	for id := fabric.NodeID(1); id <= 3; id++ {
		e, err := New(Config{Self: id, Dial: w.dialer(id), Timeout: timeout})
		require.NoError(t, err)
		w.listen(id, e)
		c.Nodes[id] = e
	}
	t.Cleanup(func() {
		for _, e := range c.Nodes {
			e.Close()
		}
	})
	return c, w
}

func TestConformance(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T) *fabrictest.Cluster {
		c, _ := cluster(t, 0)
		return c
	})
}

func TestConfigNamesTheWrongField(t *testing.T) {
	dial := func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut }
	for want, cfg := range map[string]Config{
		"Self":    {Dial: dial},
		"Dial":    {Self: 1},
		"Timeout": {Self: 1, Dial: dial, Timeout: -1},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// completion waits for the next one.
func completion(t *testing.T, e *Endpoint) fabric.Completion {
	var events fabric.Events
	for range 1000 {
		e.Poll(&events)
		if len(events.Completions) > 0 {
			return events.Completions[0]
		}
		e.Wait(time.Minute)
	}
	require.Fail(t, "no completion")
	return fabric.Completion{}
}

// alone makes an endpoint with a function as its peer.
func alone(t *testing.T, timeout time.Duration, peer func(net.Conn)) *Endpoint {
	var running sync.WaitGroup
	e, err := New(Config{Self: 1, Timeout: timeout, Dial: func(context.Context, fabric.NodeID) (net.Conn, error) {
		here, there := net.Pipe()
		running.Add(1)
		go func() {
			defer running.Done()
			defer there.Close()
			peer(there)
		}()
		return here, nil
	}})
	require.NoError(t, err)
	t.Cleanup(running.Wait)
	t.Cleanup(func() { e.Close() })
	return e
}

// TestSilentPeer: an operation on a peer that takes it and does not answer is lost after a time.
func TestSilentPeer(t *testing.T) {
	e := alone(t, 50*time.Millisecond, func(conn net.Conn) {
		_, _ = conn.Write([]byte{admission})
		_, _ = io.Copy(io.Discard, conn)
	})
	require.NoError(t, e.Post(fabric.Op{Token: 5, Peer: 2, Region: 1, Data: []byte{1}}))
	require.Equal(t, fabric.Completion{Token: 5, Peer: 2, Region: 1, Status: fabric.Lost}, completion(t, e))
}

// TestAdmission: fabric Q5. An initiator sends nothing before the target has admitted the connection: it may
// be older than another one that the target has admitted since.
func TestAdmission(t *testing.T) {
	for name, greeting := range map[string][]byte{"silent": nil, "another greeting": []byte("b")} {
		t.Run(name, func(t *testing.T) {
			got := make(chan int, 1)
			e := alone(t, 50*time.Millisecond, func(conn net.Conn) {
				_, _ = conn.Write(greeting)
				n, _ := conn.Read(make([]byte, 1))
				got <- n
			})
			require.NoError(t, e.Post(fabric.Op{Token: 5, Peer: 2, Region: 1, Data: []byte{1}}))
			require.Equal(t, fabric.Lost, completion(t, e).Status)
			require.Zero(t, <-got)
		})
	}
}

// TestHostileTarget: answers that fit to no operation end the connection, and nothing else.
func TestHostileTarget(t *testing.T) {
	for name, answer := range map[string][]byte{
		"a status that does not exist": {77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"a target does not say lost":   {byte(fabric.Lost), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too much data":                {0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255},
		"data with a refusal":          {1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 1, 1, 1},
		"half an answer":               {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := alone(t, time.Minute, func(conn net.Conn) {
				var header [remote.HeaderSize]byte
				_, _ = conn.Write([]byte{admission})
				if _, err := io.ReadFull(conn, header[:]); err == nil {
					_, _ = conn.Write(answer)
				}
			})
			require.NoError(t, e.Post(fabric.Op{Token: 5, Kind: fabric.Read, Peer: 2, Region: 1, Length: 4}))
			require.Equal(t, fabric.Lost, completion(t, e).Status)
		})
	}
}

// TestHostileInitiator: an invalid operation ends the connection; memory is not touched.
func TestHostileInitiator(t *testing.T) {
	long := remote.Encode(nil, &fabric.Op{Region: 1, Data: make([]byte, 8)})
	binary.LittleEndian.PutUint64(long[14:], 1<<63)
	far := remote.Encode(nil, &fabric.Op{Region: 1, At: fabric.MaxRegion, Data: make([]byte, 8)})
	binary.LittleEndian.PutUint64(far[6:], 1<<64-8)
	for name, frame := range map[string][]byte{
		"kind":   append([]byte{9}, make([]byte, remote.HeaderSize-1)...),
		"flags":  append([]byte{0, 8}, make([]byte, remote.HeaderSize-2)...),
		"length": long,
		"place":  far,
		"half":   long[:5],
	} {
		t.Run(name, func(t *testing.T) {
			e := alone(t, 0, func(net.Conn) {})
			m, err := e.Register(1, 64)
			require.NoError(t, err)
			require.NoError(t, e.Grant(1, 2, fabric.Readable|fabric.Writable))
			here, there := net.Pipe()
			done := make(chan error, 1)
			go func() { done <- e.Serve(2, there) }()
			_, err = io.ReadFull(here, make([]byte, 1))
			require.NoError(t, err)
			_, err = here.Write(frame)
			require.NoError(t, err)
			if name == "half" {
				here.Close()
			}
			require.Error(t, <-done)
			here.Close()
			got := make([]byte, 64)
			m.Load(0, got)
			require.Equal(t, make([]byte, 64), got)
		})
	}
}

// quiet is a connection on which nothing arrives for a while.
type quiet struct {
	net.Conn
	timeouts int
}

func (q *quiet) SetReadDeadline(time.Time) error { return nil }

func (q *quiet) Read(b []byte) (int, error) {
	if q.timeouts--; q.timeouts >= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, "x"), nil
}

// TestIdleConnectionStays: silence ends a connection only if operations wait.
func TestIdleConnectionStays(t *testing.T) {
	conn := &quiet{timeouts: 3}
	o := &outgoing{conn: conn, queues: remote.NewPeer(2, func(fabric.Completion) {})}
	w := &waiter{patient{conn, time.Second}, o}
	n, err := w.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	o.queues.Post(&fabric.Op{Peer: 2})
	o.queues.Take()
	conn.timeouts = 3
	_, err = w.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
