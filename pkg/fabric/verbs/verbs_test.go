//go:build verbs

package verbs

import (
	"context"
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
)

// wires are the connections of a cluster, by which queue pairs are set up. A connection begins with the name
// of its maker.
type wires struct {
	t         *testing.T
	mu        sync.Mutex
	addresses map[fabric.NodeID]string
	conns     map[[2]fabric.NodeID][]net.Conn
	cut       map[[2]fabric.NodeID]bool
	nodes     map[fabric.NodeID]*endpoint
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
func (w *wires) listen(id fabric.NodeID, e Endpoint) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.addresses[id] = l.Addr().String()
	w.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.serving.Go(func() {
				var name [1]byte
				if _, err := io.ReadFull(conn, name[:]); err != nil {
					conn.Close()
					return
				}
				_ = e.Serve(fabric.NodeID(name[0]), conn)
			})
		}
	})
}

// interrupt closes the connections between two nodes and lets none begin. It returns when both have noticed:
// until then, the network interface goes on.
func (w *wires) interrupt(a, b fabric.NodeID) (mend func()) {
	w.mu.Lock()
	w.cut[between(a, b)] = true
	for _, conn := range w.conns[between(a, b)] {
		conn.Close()
	}
	w.mu.Unlock()
	require.Eventually(w.t, func() bool { return w.nodes[a].apart(b) && w.nodes[b].apart(a) }, time.Minute, time.Millisecond)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cut, between(a, b))
	}
}

// apart reports whether the node has no queue that a connection to a peer has opened.
func (e *endpoint) apart(peer fabric.NodeID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o := e.outgoing[peer]; o != nil {
		for _, q := range o.queues {
			if q.line != nil {
				return false
			}
		}
	}
	return true
}

// devices gives the devices of three nodes: those of the VM, or the first one of the machine.
func devices() []string {
	if os.Getenv("RDMA_VM") == "1" {
		return []string{"rxe1", "rxe2", "rxe3"}
	}
	return []string{"", "", ""}
}

func cluster(t *testing.T) *fabrictest.Cluster {
	w := &wires{
		t: t, addresses: map[fabric.NodeID]string{}, conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{},
		nodes: map[fabric.NodeID]*endpoint{},
	}
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
	t.Cleanup(w.serving.Wait)
	for i, device := range devices() {
		id := fabric.NodeID(i + 1)
		e, err := New(Config{Self: id, Device: device, Dial: w.dialer(id), Timeout: 4 * time.Second, Report: func(peer fabric.NodeID, err error) {
			if err != nil {
				t.Logf("node %d has no queue pair to node %d: %v", id, peer, err)
			}
		}})
		require.NoError(t, err)
		w.listen(id, e)
		c.Nodes[id], w.nodes[id] = e, e.(*endpoint)
	}
	t.Cleanup(func() {
		for _, e := range c.Nodes {
			e.Close()
		}
	})
	return c
}

func TestConformance(t *testing.T) { fabrictest.Run(t, cluster) }

// await returns the status of the next completion of a node.
func await(t *testing.T, e fabric.Endpoint) fabric.Status {
	t.Helper()
	var events fabric.Events
	for end := time.Now().Add(time.Minute); time.Now().Before(end); e.Wait(time.Second) {
		if e.Poll(&events); len(events.Completions) > 0 {
			require.Len(t, events.Completions, 1)
			return events.Completions[0].Status
		}
	}
	t.Fatal("no completion")
	return 0
}

// register makes a region of 64 bytes that a peer may write.
func register(t *testing.T, e fabric.Endpoint, id fabric.RegionID, writer fabric.NodeID) fabric.Memory {
	m, err := e.Register(id, 64)
	require.NoError(t, err)
	require.NoError(t, e.Grant(id, writer, fabric.Writable))
	return m
}

// TestStrangersKey: a queue pair reaches its region only. A node that has learnt the key and the address of
// another region cannot write there.
func TestStrangersKey(t *testing.T) {
	c := cluster(t)
	target, stranger := c.Nodes[1].(*endpoint), c.Nodes[2].(*endpoint)
	register(t, target, 7, 2)
	other := register(t, target, 8, 3)
	write := fabric.Op{Token: 1, Peer: 1, Region: 7, Data: []byte("12345678")}
	require.NoError(t, stranger.Post(write))
	require.Equal(t, fabric.OK, await(t, stranger))

	target.mu.Lock()
	memory := target.regions[8].memory
	key, base := memory.key(), uint64(memory.at(0))
	target.mu.Unlock()
	stranger.mu.Lock()
	q := stranger.outgoing[1].queues[7]
	q.target.key, q.target.base = key, base
	stranger.mu.Unlock()
	require.NoError(t, stranger.Post(write))
	require.Equal(t, fabric.Denied, await(t, stranger))
	got := make([]byte, 64)
	other.Load(0, got)
	require.Equal(t, make([]byte, 64), got)
}

// TestDeviceFails: after the failure of the device, no operation begins, and those under way are lost. The
// peers go on.
func TestDeviceFails(t *testing.T) {
	c := cluster(t)
	failed := c.Nodes[2].(*endpoint)
	register(t, c.Nodes[1], 7, 2)
	require.NoError(t, c.Nodes[1].Grant(7, 3, fabric.Writable))
	write := fabric.Op{Token: 1, Peer: 1, Region: 7, Data: []byte("12345678")}
	require.NoError(t, failed.Post(write))
	require.Equal(t, fabric.OK, await(t, failed))

	failed.mu.Lock()
	failed.queues[failed.outgoing[1].queues[7].id].ops.Post(&write) // under way
	failed.mu.Unlock()
	failed.fail(errDevice)
	require.Equal(t, fabric.Lost, await(t, failed))
	require.ErrorIs(t, failed.Post(write), errDevice)
	require.NoError(t, c.Nodes[3].Post(write))
	require.Equal(t, fabric.OK, await(t, c.Nodes[3]))
	require.NoError(t, failed.Close())
}

// TestReport: an attempt to set up a queue pair is reported, with the reason of a failure.
func TestReport(t *testing.T) {
	reports := make(chan error, 1)
	e, err := New(Config{
		Self: 1, Device: devices()[0], Dial: func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut },
		Report: func(_ fabric.NodeID, err error) { reports <- err },
	})
	require.NoError(t, err)
	defer e.Close()
	require.NoError(t, e.Post(fabric.Op{Peer: 2, Region: 7}))
	require.ErrorIs(t, <-reports, errCut)
	require.Equal(t, fabric.Lost, await(t, e))
	_, err = e.Register(7, 64)
	require.NoError(t, err)
	require.NoError(t, e.Post(fabric.Op{Kind: fabric.Reset, Peer: 1, Region: 7}))
	require.NoError(t, <-reports)
	require.NoError(t, Check(devices()[0]))
}

// exponent returns the exponent of the time-out of a queue pair, seven of which fit into the given time.
func TestExponent(t *testing.T) {
	for timeout, want := range map[time.Duration]int{time.Nanosecond: 1, 2 * time.Second: 16, time.Hour: 26} {
		require.EqualValues(t, want, exponent(timeout), timeout)
	}
}

// The error for an unknown device names the device.
func TestUnknownDevice(t *testing.T) {
	dial := func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut }
	_, err := New(Config{Self: 1, Dial: dial, Device: "none0"})
	require.ErrorContains(t, err, `"none0"`)
	require.Equal(t, err, Check("none0"))
}
