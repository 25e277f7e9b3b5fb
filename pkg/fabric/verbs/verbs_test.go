//go:build rdma

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
	}
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
	t.Cleanup(w.serving.Wait)
	for i, device := range devices() {
		id := fabric.NodeID(i + 1)
		e, err := New(Config{Self: id, Device: device, Dial: w.dialer(id), Timeout: 4 * time.Second})
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

func TestConformance(t *testing.T) { fabrictest.Run(t, cluster) }

// TestExponent: seven time-outs of a queue pair fit into the time.
func TestExponent(t *testing.T) {
	for timeout, want := range map[time.Duration]int{time.Nanosecond: 1, 2 * time.Second: 16, time.Hour: 26} {
		require.EqualValues(t, want, exponent(timeout), timeout)
	}
}

// TestUnknownDevice: the error names the device.
func TestUnknownDevice(t *testing.T) {
	dial := func(context.Context, fabric.NodeID) (net.Conn, error) { return nil, errCut }
	_, err := New(Config{Self: 1, Dial: dial, Device: "none0"})
	require.ErrorContains(t, err, `"none0"`)
}
