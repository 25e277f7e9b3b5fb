package daemon

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/logged"
)

// tunnel is a proxy for a server that the test can close.
type tunnel struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
	shut  bool
}

func newTunnel(t *testing.T, to string) *tunnel {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &tunnel{Listener: l, to: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(from) })
		}
	})
	t.Cleanup(func() {
		w.cut()
		running.Wait()
	})
	return w
}

// carry connects a connection to the server until either end closes.
func (w *tunnel) carry(from net.Conn) {
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		_ = from.Close()
		return
	}
	w.mu.Lock()
	w.conns = append(w.conns, from, to)
	shut := w.shut
	w.mu.Unlock()
	if shut {
		_, _ = from.Close(), to.Close()
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // it ends with the connection
			_, _ = way[0].Close(), way[1].Close()
		})
	}
	both.Wait()
}

// cut closes the tunnel permanently.
func (w *tunnel) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = true
	_ = w.Close()
	for _, c := range w.conns {
		_ = c.Close()
	}
}

// TestReplacedReplicaHearsOfItFromItsGroup: the server of the replaced replica runs, but cannot reach the
// registry, and so does not learn of the replacement from there.
func TestReplacedReplicaHearsOfItFromItsGroup(t *testing.T) {
	w := newWorld(t, []topology.Region{"west"}, 4)
	endpoint, err := url.Parse(w.etcd.Endpoint())
	require.NoError(t, err)
	way := newTunnel(t, endpoint.Host)
	file := w.file
	file.Registry.Endpoints = []string{"http://" + way.Addr().String()}
	var said logged.Text
	started := make(chan error)
	var west *Server
	go func() {
		var err error
		west, err = StartServer(t.Context(), ServerConfig{
			File: &file, Name: "westa", Tuning: server.Tuning{Healing: blocktest.Impatient()}, Build: "test", Logger: said.Logger(),
		})
		started <- err
	}()
	w.start("westb", "westc", "westd")
	require.NoError(t, <-started)
	ctx, stop := context.WithCancel(context.Background())
	p := &process{Server: west, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- west.Run(ctx) }()
	w.running["westa"] = p

	a := w.access("", "")
	c, root := w.client(a), a.Cluster().Partitions[1].Root()
	files := contents{}
	files.write(t, c, root, 5)
	require.Equal(t, "westa", a.Cluster().Partitions[1].Replicas[0].Server)
	way.cut()
	require.NoError(t, a.Ask(t.Context(), "westb", &Request{Op: Replace, Partition: 1, Server: "westa", To: "westd"}, &Changed{}))
	require.Eventually(t, func() bool { return said.Has("a replica here was replaced and has stopped") }, soon, 100*time.Millisecond)
	files.write(t, c, root, 5)
	files.check(t, c, root)
}
