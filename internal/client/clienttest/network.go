// Package clienttest is a cluster in one object, for tests of what stands on a client: the real
// replicas (internal/replica, internal/meta, internal/kv) over a multicast that is a list,
// and blocks in memory. Replicas can be cut off, made mute or made to lag. It has no goroutine
// and no clock but package time, so it also lives in a synctest bubble.
package clienttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Fault is what is wrong with a replica.
type Fault int

// The faults.
const (
	None    Fault = iota
	Down          // calls fail at once and are not executed
	Silent        // calls are not executed and not answered
	Mute          // calls are executed and not answered
	Lagging       // it answers, but what is ordered does not reach it
	Busy          // it answers Overloaded
)

// StorageBytes is the size of the block store.
const StorageBytes = 1 << 30

// Network is the cluster; it is a client.Caller.
type Network struct {
	Plan   *topology.Cluster
	Blocks *blocktest.Memory // of all partitions

	start time.Time

	mu      sync.Mutex
	members map[multicast.ProcessID]*member // GUARDED_BY mu
	calls   map[multicast.ProcessID]int     // GUARDED_BY mu
	called  *sync.Cond                      // on mu
	token   uint64                          // GUARDED_BY mu
}

// member is a replica and its part of the list.
type member struct {
	process multicast.ProcessID
	group   *group
	replica *replica.Replica
	passed  int // of group.order
	fault   Fault
	waiting map[uint64]chan []byte
}

// group is the order of one partition.
type group struct {
	order   []multicast.Delivery
	members []*member
}

// New makes the cluster of spec, with leases of the given length.
func New(t testing.TB, spec topology.Spec, lease time.Duration) *Network {
	plan, err := spec.Plan()
	require.NoError(t, err)
	n := &Network{
		Plan: plan, Blocks: blocktest.NewMemory(StorageBytes), start: time.Now(),
		members: map[multicast.ProcessID]*member{}, calls: map[multicast.ProcessID]int{},
	}
	n.called = sync.NewCond(&n.mu)
	for i := range plan.Partitions {
		p, g := &plan.Partitions[i], &group{}
		for index, r := range p.Replicas {
			m := &member{process: r.Process, group: g, waiting: map[uint64]chan []byte{}}
			keys := kv.NewMemory()
			machine, err := meta.New(keys, meta.Config{Partition: p.ID, Genesis: births(plan, p), Time: 1})
			require.NoError(t, err)
			m.replica, err = replica.New(replica.Config{
				Partition: p.ID, Partitions: len(plan.Partitions), Self: r.Process, Index: index, Lease: lease,
			}, m, keys, machine)
			require.NoError(t, err)
			g.members = append(g.members, m)
			n.members[r.Process] = m
		}
	}
	return n
}

func births(plan *topology.Cluster, p *topology.Partition) (births []meta.Birth) {
	if p.ID != 0 {
		return nil
	}
	for _, local := range plan.Partitions[1:] {
		births = append(births, meta.Birth{Name: local.Path[1:], Ino: local.Root()})
	}
	return births
}

// Config is that of a client in region.
func (n *Network) Config(region topology.Region) client.Config {
	return client.Config{
		Cluster: n.Plan, Region: region, Caller: n,
		Blocks: func(uint16) block.Store { return n.Blocks },
		Usage:  func(context.Context) (uint64, uint64, error) { return n.Blocks.Usage() },
	}
}

// Client makes a client in region for the length of the test.
func (n *Network) Client(t testing.TB, region topology.Region) *client.Client {
	c, err := client.New(n.Config(region))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Replay implements multicast.Core; nothing is ever recorded.
func (m *member) Replay([]byte) error { return errors.New("no log") }

// Step implements multicast.Core: the order is that of the proposals.
func (m *member) Step(in *multicast.Input, out *multicast.Output) {
	for _, p := range in.Proposed {
		m.group.order = append(m.group.order, multicast.Delivery{Message: p, Final: multicast.Timestamp(len(m.group.order) + 1)})
	}
	if m.fault == None || m.fault == Mute {
		out.Deliveries = append(out.Deliveries, m.group.order[m.passed:]...)
		m.passed = len(m.group.order)
	}
}

// Fail gives all replicas on a process, or on all processes of a partition, a fault.
func (n *Network) Fail(fault Fault, processes ...multicast.ProcessID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range processes {
		n.members[p].fault = fault
	}
	n.turn()
}

// Processes gives the replicas of a partition as a client in region asks them, as far as
// distance decides.
func (n *Network) Processes(partition uint16, region topology.Region) (processes []multicast.ProcessID) {
	for _, r := range topology.Nearest(region, n.Plan.Partitions[partition].Replicas) {
		processes = append(processes, r.Process)
	}
	return processes
}

// Calls gives how often replicas were called.
func (n *Network) Calls(processes ...multicast.ProcessID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sum(processes)
}

// AwaitCalls returns when replicas have been called count times in all.
func (n *Network) AwaitCalls(count int, processes ...multicast.ProcessID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.sum(processes) < count {
		n.called.Wait()
	}
}

// sum adds up calls. The caller holds mu.
func (n *Network) sum(processes []multicast.ProcessID) (sum int) {
	for _, p := range processes {
		sum += n.calls[p]
	}
	return sum
}

// Ordered gives how many messages were ordered in a partition.
func (n *Network) Ordered(partition uint16) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.members[n.Plan.Partitions[partition].Replicas[0].Process].group.order)
}

// Tick lets all replicas look at the time: leases end by it.
func (n *Network) Tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn()
}

// Call implements client.Caller.
func (n *Network) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	answer, err := n.take(to, request)
	if err != nil {
		return nil, err
	}
	select {
	case b := <-answer:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take hands a request to a replica.
func (n *Network) take(to multicast.ProcessID, request []byte) (answer chan []byte, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[to]++
	n.called.Broadcast()
	m := n.members[to]
	answer = make(chan []byte, 1)
	switch {
	case m == nil || m.fault == Down:
		return nil, transport.ErrUnreachable
	case m.fault == Silent:
		return answer, nil
	case m.fault == Busy:
		answer <- (&replica.Reply{Status: replica.Overloaded}).Append(nil)
		return answer, nil
	}
	n.token++
	if m.fault != Mute {
		m.waiting[n.token] = answer
	}
	n.step(m, replica.Call{Token: n.token, Data: request})
	n.turn()
	return answer, nil
}

// turn lets every replica that is not cut off take a step.
func (n *Network) turn() {
	for i := range n.Plan.Partitions {
		for _, m := range n.members[n.Plan.Partitions[i].Replicas[0].Process].group.members {
			if m.fault != Down && m.fault != Silent {
				n.step(m)
			}
		}
	}
}

// step gives requests to m until it has nothing more to say.
func (n *Network) step(m *member, requests ...replica.Call) {
	for {
		since := time.Since(n.start)
		in := replica.Input{Requests: requests}
		in.Now = multicast.Instant{Mono: since + 1, Wall: time.Now().UnixNano()}
		var out replica.Output
		m.replica.Step(&in, &out)
		late, err := m.replica.Apply(out.Deliveries)
		if err != nil {
			panic(err) // a store in memory does not fail
		}
		for _, reply := range append(out.Replies, late...) {
			if answer := m.waiting[reply.Token]; answer != nil {
				answer <- reply.Data
				delete(m.waiting, reply.Token)
			}
		}
		if len(out.Deliveries) == 0 {
			return
		}
		requests = nil
	}
}

// Root is a credential that may do everything.
var Root = posix.Cred{}
