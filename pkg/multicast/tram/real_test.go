package tram_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// realCluster has a goroutine for each process, and TCP connections.
type realCluster struct {
	t       *testing.T
	start   time.Time
	groups  []multicast.Group
	nodes   map[multicast.ProcessID]*realNode
	serving sync.WaitGroup
}

type realNode struct {
	*node
	listener net.Listener
}

func newRealCluster(t *testing.T) *realCluster {
	r := &realCluster{t: t, start: time.Now(), groups: threeGroups(), nodes: map[multicast.ProcessID]*realNode{}}
	for _, g := range r.groups {
		for _, id := range g.Members {
			r.add(id, g.ID)
		}
	}
	for _, n := range r.nodes {
		go n.drive(r.start, func(*tram.Output, bool) {})
	}
	t.Cleanup(func() {
		for id := range r.nodes {
			r.kill(id)
		}
		r.serving.Wait()
	})
	return r
}

func (r *realCluster) add(id multicast.ProcessID, group multicast.GroupID) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	endpoint, err := soft.New(soft.Config{Self: fabric.NodeID(id), Dial: func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", r.nodes[multicast.ProcessID(peer)].listener.Addr().String())
		if err == nil {
			_, err = conn.Write([]byte{byte(id)})
		}
		return conn, err
	}})
	require.NoError(r.t, err)
	inner, err := newNode(id, group, endpoint, 200*time.Millisecond)
	require.NoError(r.t, err)
	n := &realNode{node: inner, listener: listener}
	r.nodes[id] = n
	r.serving.Add(1)
	go func() {
		defer r.serving.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.serving.Add(1)
			go func() {
				defer r.serving.Done()
				var name [1]byte
				if _, err := io.ReadFull(conn, name[:]); err == nil {
					_ = endpoint.Serve(fabric.NodeID(name[0]), conn)
				}
				conn.Close()
			}()
		}
	}()
}

// kill ends a process with its memory.
func (r *realCluster) kill(id multicast.ProcessID) {
	n := r.nodes[id]
	select {
	case <-n.stop:
		return
	default:
	}
	close(n.stop)
	n.listener.Close()
	n.endpoint.Close()
	<-n.stopped
}

// TestOverSoft: the core on real connections, with goroutines for processes. The first leader of the root is
// killed under load; what the others multicast is delivered by all that live, in an acyclic order.
func TestOverSoft(t *testing.T) {
	r := newRealCluster(t)
	var h check.History
	want := map[multicast.GroupID]int{}
	const rounds = 30
	for seq := range uint64(rounds) {
		for id := multicast.ProcessID(2); id <= 9; id++ {
			n, dest := r.nodes[id], destinations[(seq+uint64(id))%6]
			m := multicast.Message{ID: multicast.MessageID{Sender: id, Seq: seq + 1}, Dest: dest, Payload: []byte("payload")}
			h.Multicasts = append(h.Multicasts, check.Multicast{ID: m.ID, Dest: dest, At: time.Since(r.start)})
			n.mu.Lock()
			n.proposed = append(n.proposed, m)
			n.mu.Unlock()
			for _, g := range dest {
				want[g]++
			}
		}
		if seq == rounds/2 {
			r.await(func(n *realNode) bool { return n.id == 1 || n.group != 0 || len(n.delivered) > 0 })
			r.kill(1)
		}
	}
	r.await(func(n *realNode) bool { return n.id == 1 || len(n.delivered) >= want[n.group] })
	led := false
	for id, n := range r.nodes {
		r.kill(id)
		h.Processes = append(h.Processes, check.Process{ID: id, Group: n.group, Correct: id != 1})
		h.Deliveries = append(h.Deliveries, n.delivered...)
		led = led || n.group == 0 && id != 1 && n.leads
	}
	require.True(t, led, "nobody leads the root")
	require.Empty(t, check.Integrity(&h))
	require.Empty(t, check.PrefixOrder(&h))
	require.Empty(t, check.AcyclicOrder(&h))
	require.Empty(t, check.Agreement(&h))
	require.Empty(t, check.Validity(&h))
}

// await waits until something holds for all processes.
func (r *realCluster) await(holds func(n *realNode) bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for _, n := range r.nodes {
			n.mu.Lock()
			ok := holds(n)
			n.mu.Unlock()
			if !ok {
				return false
			}
		}
		return true
	}, time.Minute, 5*time.Millisecond)
}
