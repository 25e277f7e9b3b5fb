package shm

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabrictest"
)

// wires are the connections of a cluster. A connection begins with the name of its maker.
type wires struct {
	t       *testing.T
	dir     string
	mu      sync.Mutex
	conns   map[[2]fabric.NodeID][]net.Conn
	cut     map[[2]fabric.NodeID]bool
	serving sync.WaitGroup
}

var errCut = errors.New("cut")

// between names a pair of nodes.
func between(a, b fabric.NodeID) [2]fabric.NodeID { return [2]fabric.NodeID{min(a, b), max(a, b)} }

func (w *wires) address(id fabric.NodeID) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: filepath.Join(w.dir, strconv.Itoa(int(id)))}
}

func (w *wires) dialer(self fabric.NodeID) func(context.Context, fabric.NodeID) (*net.UnixConn, error) {
	return func(_ context.Context, peer fabric.NodeID) (*net.UnixConn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut[between(self, peer)] {
			return nil, errCut
		}
		conn, err := net.DialUnix("unix", nil, w.address(peer))
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
	l, err := net.ListenUnix("unix", w.address(id))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.serving.Go(func() { serveAll(l, e) })
}

// serveAll serves the connections of a listener until it is closed.
func serveAll(l *net.UnixListener, e *Endpoint) {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := l.AcceptUnix()
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

func cluster(t *testing.T, cfg Config) *fabrictest.Cluster {
	w := &wires{t: t, dir: t.TempDir(), conns: map[[2]fabric.NodeID][]net.Conn{}, cut: map[[2]fabric.NodeID]bool{}}
	c := &fabrictest.Cluster{Nodes: map[fabric.NodeID]fabric.Endpoint{}, Cut: w.interrupt}
	t.Cleanup(w.serving.Wait)
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

// TestConformance runs the suite on nodes that sleep and nodes that spin, and with rings in which large
// operations do not fit.
func TestConformance(t *testing.T) {
	for name, cfg := range map[string]Config{
		"Sleep":      {},
		"Spin":       {Spin: 50 * time.Microsecond},
		"SmallRings": {Ring: minRing},
	} {
		t.Run(name, func(t *testing.T) {
			fabrictest.Run(t, func(t *testing.T) *fabrictest.Cluster { return cluster(t, cfg) })
		})
	}
}
