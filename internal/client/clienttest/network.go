// Package clienttest is a cluster in one object, for tests of packages that use a client. It has the real
// replicas (internal/replica, internal/meta, internal/kv) over orders that are lists, one for each partition
// and one between them, and blocks in memory. Replicas can be cut off, made mute or made to lag. The package
// has no clock but package time, and no goroutine but that of its timer, so it also runs in a synctest
// bubble.
package clienttest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Fault is a fault of a replica.
type Fault int

// The faults.
const (
	None    Fault = iota
	Down          // calls fail at once and are not executed; messages of other replicas to it are lost
	Silent        // calls are not executed and not answered; messages of other replicas to it are lost
	Mute          // calls are executed and not answered
	Lagging       // it answers, but ordered messages do not reach it
	Busy          // it answers Overloaded
	Left          // it answers Replaced
)

// StorageBytes is the size of the block store.
const StorageBytes = 1 << 30

// Network is the cluster; it is a client.Caller.
type Network struct {
	Plan   *topology.Cluster
	Blocks *blocktest.Memory // of all partitions

	start time.Time

	mu      sync.Mutex
	groups  []*group                        // GUARDED_BY mu; by partition
	members map[multicast.ProcessID]*member // GUARDED_BY mu
	cross   list                            // GUARDED_BY mu; the order between partitions
	calls   map[multicast.ProcessID]int     // GUARDED_BY mu
	called  *sync.Cond                      // on mu
	token   uint64                          // GUARDED_BY mu
	wake    *time.Timer                     // GUARDED_BY mu; for later work of replicas
	stopped bool                            // GUARDED_BY mu
	delay   time.Duration                   // GUARDED_BY mu; of frames between replicas
}

// member is a replica with its input.
type member struct {
	network *Network
	process multicast.ProcessID
	group   *group
	keys    *kv.Store
	replica *replica.Replica
	seals   ask.Keys
	fault   Fault
	inbox   []letter // in the order of due
	waiting map[uint64]chan []byte
}

// letter is a frame on its way.
type letter struct {
	due time.Duration
	multicast.Frame
}

// lives reports whether others can reach m.
func (m *member) lives() bool { return m.fault != Down && m.fault != Silent }

// follows reports whether ordered messages reach m.
func (m *member) follows() bool { return m.fault == None || m.fault == Mute || m.fault == Busy }

// group is a partition and its order.
type group struct {
	id      multicast.GroupID
	order   list
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
		p := &plan.Partitions[i]
		g := &group{id: multicast.GroupID(p.ID)}
		n.groups = append(n.groups, g)
		for index := range p.Replicas {
			g.members = append(g.members, n.newMember(t, p, index, lease))
		}
	}
	t.Cleanup(n.stop)
	return n
}

// newMember makes a replica of p, the last of the groups.
func (n *Network) newMember(t testing.TB, p *topology.Partition, index int, lease time.Duration) *member {
	m := &member{
		network: n, process: p.Replicas[index].Process, group: n.groups[p.ID], keys: kv.NewMemory(),
		waiting: map[uint64]chan []byte{}, seals: ask.Keys{[]byte("of the network")},
	}
	machine, err := meta.New(m.keys, meta.Config{Partition: p.ID, Genesis: births(n.Plan, p), Time: 1, Shards: n.Plan.Shards(p.Region)})
	require.NoError(t, err)
	cfg := replica.Config{Partition: p.ID, Groups: n.Plan.Groups(), Self: m.process, Index: index, Sealer: &m.seals, Tickets: ticketer{&m.seals}, Lease: lease}
	local, cross := &order{member: m, list: &m.group.order}, &order{member: m, list: &n.cross}
	m.replica, err = replica.New(cfg, local, cross, m.keys, machine)
	require.NoError(t, err)
	n.members[m.process] = m
	return m
}

func births(plan *topology.Cluster, p *topology.Partition) (births []meta.Birth) {
	if p.ID != 0 {
		return nil
	}
	for _, local := range plan.Partitions[1:] {
		if local.Shard > 0 {
			continue
		}
		births = append(births, meta.Birth{Name: local.Path[1:], Ino: local.Root()})
	}
	return births
}

// SetVectorKeys changes the keys with which replicas prove vectors.
func (n *Network) SetVectorKeys(keys ask.Keys, processes ...multicast.ProcessID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range processes {
		n.members[p].seals = keys
	}
}

// Config returns the configuration of a client in region.
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

// Fail sets the fault of the replicas on the given processes.
func (n *Network) Fail(fault Fault, processes ...multicast.ProcessID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range processes {
		n.members[p].fault = fault
	}
	n.turn()
}

// Delay delays the messages between replicas: commands of several partitions then stay undecided for as long.
// The delay must not shrink while messages are under way.
func (n *Network) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Processes returns the replicas of a partition in the order of a client in region, as far as distance
// decides the order.
func (n *Network) Processes(partition uint16, region topology.Region) (processes []multicast.ProcessID) {
	for _, r := range topology.Nearest(region, n.Plan.Partitions[partition].Replicas) {
		processes = append(processes, r.Process)
	}
	return processes
}

// Calls returns the number of calls of replicas.
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

// Ordered returns the number of messages that were ordered in a partition.
func (n *Network) Ordered(partition uint16) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.groups[partition].order)
}

// Tick makes all replicas read the clock, which ends leases.
func (n *Network) Tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn()
}

// Call implements client.Caller, for one of the cluster's own processes.
func (n *Network) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return n.call(ctx, to, turn.Call{Data: request})
}

// Bound returns a client.Caller for a client machine outside the cluster.
func (n *Network) Bound(from *ask.Client) client.Caller { return bound{n, from} }

type bound struct {
	network *Network
	from    *ask.Client
}

// Call implements client.Caller.
func (b bound) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return b.network.call(ctx, to, turn.Call{Data: request, From: b.from})
}

func (n *Network) call(ctx context.Context, to multicast.ProcessID, call turn.Call) ([]byte, error) {
	answer, err := n.take(to, call)
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
func (n *Network) take(to multicast.ProcessID, call turn.Call) (answer chan []byte, err error) {
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
		answer <- (&ask.Reply{Status: ask.Overloaded}).Append(nil)
		return answer, nil
	case m.fault == Left:
		answer <- (&ask.Reply{Status: ask.Replaced}).Append(nil)
		return answer, nil
	}
	n.token++
	if m.fault != Mute {
		m.waiting[n.token] = answer
	}
	call.Token = n.token
	n.step(m, call)
	n.turn()
	return answer, nil
}

// turn makes the replicas that are not cut off take steps until they have no more work now.
func (n *Network) turn() {
	for busy := true; busy; {
		busy = false
		for _, g := range n.groups {
			for _, m := range g.members {
				if m.lives() && n.step(m) {
					busy = true
				}
			}
		}
	}
	n.setTimer()
}

// now returns the time on the replicas' clocks.
func (n *Network) now() time.Duration { return time.Since(n.start) + 1 }

// step makes m take a step, and reports whether m did anything or has more work now.
func (n *Network) step(m *member, requests ...turn.Call) (busy bool) {
	in := turn.Input{Requests: requests}
	in.Now = multicast.Instant{Mono: n.now(), Wall: time.Now().UnixNano()}
	for len(m.inbox) > 0 && m.inbox[0].due <= in.Now.Mono {
		in.Frames, m.inbox = append(in.Frames, m.inbox[0].Frame), m.inbox[1:]
	}
	var out turn.Output
	m.replica.Step(&in, &out)
	for _, f := range slices.Concat(out.Early, out.Frames) {
		if to := n.members[f.Peer]; to != nil && to.lives() {
			to.inbox = append(to.inbox, letter{in.Now.Mono + n.delay, multicast.Frame{Peer: m.process, Data: f.Data}})
		}
	}
	late, err := m.replica.Apply(&out)
	if err != nil {
		panic(err) // a store in memory does not fail
	}
	for _, reply := range slices.Concat(out.Replies, out.Persisted, late) {
		if answer := m.waiting[reply.Token]; answer != nil {
			answer <- reply.Data
			delete(m.waiting, reply.Token)
		}
	}
	wake := m.wake()
	return len(out.Frames)+len(out.Deliveries) > 0 || wake != 0 && wake <= in.Now.Mono
}

// wake returns the time of m's next work, 0 if there is none.
func (m *member) wake() time.Duration {
	wake := m.replica.Wake()
	if len(m.inbox) > 0 && (wake == 0 || m.inbox[0].due < wake) {
		return m.inbox[0].due
	}
	return wake
}

// setTimer sets the timer for the next later work of a replica. The caller holds mu.
func (n *Network) setTimer() {
	var next time.Duration
	for _, m := range n.members {
		if wake := m.wake(); m.lives() && wake != 0 && (next == 0 || wake < next) {
			next = wake
		}
	}
	if n.wake != nil {
		n.wake.Stop()
	}
	if next != 0 && !n.stopped {
		n.wake = time.AfterFunc(next-n.now(), n.Tick)
	}
}

// stop ends the timer: replicas take no steps any more.
func (n *Network) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wake != nil {
		n.wake.Stop()
	}
	n.stopped = true
}

// Root is a credential that may do everything.
var Root = posix.Cred{}
