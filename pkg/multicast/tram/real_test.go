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

// node is a process with a goroutine of its own, on TCP connections.
type node struct {
	id       multicast.ProcessID
	group    multicast.GroupID
	core     *tram.Core
	endpoint *soft.Endpoint
	listener net.Listener
	stop     chan struct{}
	stopped  chan struct{}

	mu        sync.Mutex
	proposed  []multicast.Message
	delivered []check.Delivery
	leads     bool
}

type realCluster struct {
	t       *testing.T
	start   time.Time
	groups  []multicast.Group
	nodes   map[multicast.ProcessID]*node
	serving sync.WaitGroup
}

func newRealCluster(t *testing.T) *realCluster {
	r := &realCluster{t: t, start: time.Now(), nodes: map[multicast.ProcessID]*node{}}
	for g := range multicast.GroupID(3) {
		group := multicast.Group{ID: g}
		for i := range multicast.ProcessID(3) {
			group.Members = append(group.Members, multicast.ProcessID(3*g)+i+1)
		}
		r.groups = append(r.groups, group)
	}
	for _, g := range r.groups {
		for _, id := range g.Members {
			r.add(id, g.ID)
		}
	}
	for _, n := range r.nodes {
		go r.drive(n)
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
	n := &node{id: id, group: group, listener: listener, stop: make(chan struct{}), stopped: make(chan struct{})}
	n.endpoint, err = soft.New(soft.Config{Self: fabric.NodeID(id), Dial: func(ctx context.Context, peer fabric.NodeID) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", r.nodes[multicast.ProcessID(peer)].listener.Addr().String())
		if err == nil {
			_, err = conn.Write([]byte{byte(id)})
		}
		return conn, err
	}})
	require.NoError(r.t, err)
	n.core, err = tram.New(tram.Config{
		Self: id, Groups: r.groups, Parents: map[multicast.GroupID]multicast.GroupID{1: 0, 2: 0},
		Slots: 16, SlotSize: 256, SuspectAfter: 200 * time.Millisecond, RetryAfter: 10 * time.Millisecond, Seed: uint64(id),
	})
	require.NoError(r.t, err)
	for _, region := range n.core.Regions() {
		m, err := n.endpoint.Register(region.ID, region.Size)
		require.NoError(r.t, err)
		n.core.Attach(region.ID, m)
	}
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
					_ = n.endpoint.Serve(fabric.NodeID(name[0]), conn)
				}
				conn.Close()
			}()
		}
	}()
}

// drive steps a process: rights change before operations are posted.
func (r *realCluster) drive(n *node) {
	defer close(n.stopped)
	var events fabric.Events
	var out tram.Output
	for {
		select {
		case <-n.stop:
			return
		default:
		}
		wait := 100 * time.Millisecond
		if out.Wake > 0 {
			wait = min(wait, max(0, out.Wake-time.Since(r.start)))
		}
		n.endpoint.Wait(wait)
		events.Reset()
		n.endpoint.Poll(&events)
		n.mu.Lock()
		in := tram.Input{Now: time.Since(r.start), Completions: events.Completions, Proposed: n.proposed}
		n.proposed = nil
		n.mu.Unlock()
		out.Reset()
		n.core.Step(&in, &out)
		for _, right := range out.Rights {
			if right.Revoke {
				_ = n.endpoint.Revoke(right.Region, right.Peer, right.Rights)
			} else {
				_ = n.endpoint.Grant(right.Region, right.Peer, right.Rights)
			}
		}
		if n.endpoint.Post(out.Ops...) != nil {
			return
		}
		n.mu.Lock()
		for _, d := range out.Deliveries {
			n.delivered = append(n.delivered, check.Delivery{Process: n.id, ID: d.ID, Final: d.Final, At: time.Since(r.start)})
		}
		n.leads = n.core.Leads()
		n.mu.Unlock()
	}
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
	dests := [][]multicast.GroupID{{0}, {1}, {0, 1}, {1, 2}, {0, 1, 2}, {2}}
	want := map[multicast.GroupID]int{}
	const rounds = 30
	for seq := range uint64(rounds) {
		for id := multicast.ProcessID(2); id <= 9; id++ {
			n, dest := r.nodes[id], dests[(seq+uint64(id))%6]
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
			r.await(func(n *node) bool { return n.id == 1 || n.group != 0 || len(n.delivered) > 0 })
			r.kill(1)
		}
	}
	r.await(func(n *node) bool { return n.id == 1 || len(n.delivered) >= want[n.group] })
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
func (r *realCluster) await(holds func(n *node) bool) {
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
