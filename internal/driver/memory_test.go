package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/shm"
	"github.com/globalfs/globalfs/pkg/fabric/soft"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// noted is an endpoint that records the order of all calls.
type noted struct {
	*diary
	fabric.Endpoint
	refuses error // of operations
	closed  chan struct{}
}

func (n *noted) Grant(fabric.RegionID, fabric.NodeID, fabric.Rights) error {
	n.note("grant")
	return nil
}

func (n *noted) Revoke(fabric.RegionID, fabric.NodeID, fabric.Rights) error {
	n.note("revoke")
	return nil
}

func (n *noted) Post(ops ...fabric.Op) error {
	if len(ops) > 0 {
		n.note("post")
	}
	return n.refuses
}
func (*noted) Poll(*fabric.Events)    {}
func (n *noted) Wait(_ time.Duration) { <-n.closed }
func (n *noted) Close() error         { close(n.closed); return nil }

// reaching has a change of rights and an operation in each step with a request.
type reaching struct{ *diary }

func (r reaching) Step(in *turn.Input, out *turn.Output) {
	r.diary.Step(in, out)
	if out.Early = nil; len(in.Requests) > 0 {
		out.Rights = []fabric.Right{{Revoke: true}, {}}
		out.Ops = []fabric.Op{{}}
	}
}

// TestRightsBeforeOperations: rights change and operations begin when the records are durable, in this order
// (package tram, G2 and S1). A state machine learns of its deliveries afterwards.
func TestRightsBeforeOperations(t *testing.T) {
	log := &diary{}
	d := New(1, reaching{log}, log, log, NewSystemClock())
	d.UseMemory(&noted{diary: log, closed: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	_, err := d.Handle(t.Context(), nil, []byte{1})
	require.NoError(t, err)
	require.NoError(t, d.Between(t.Context(), func() {}))
	cancel()
	require.NoError(t, <-ended)
	log.mu.Lock()
	defer log.mu.Unlock()
	entries := slices.DeleteFunc(log.entries, func(entry string) bool { return entry == "flush" })
	require.Equal(t, []string{"append", "sync", "revoke", "grant", "post", "late"}, entries)
}

// TestMemoryFails: a node stops if its operations cannot begin, or if it has no memory.
func TestMemoryFails(t *testing.T) {
	full := errors.New("no memory")
	for _, e := range []fabric.Endpoint{&noted{diary: &diary{}, closed: make(chan struct{}), refuses: full}, nil} {
		log := &diary{}
		d := New(1, reaching{log}, log, log, NewSystemClock())
		if e != nil {
			d.UseMemory(e)
		} else {
			full = errNoMemory
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Run(t.Context()) }()
		d.Begin(nil, []byte{1}, make(waiter, 1))
		require.ErrorIs(t, <-ended, full)
		require.NotContains(t, log.entries, "late")
	}
}

// ordering is a node without a state machine: it orders requests, and answers them when they are delivered.
type ordering struct {
	self    multicast.ProcessID
	core    *onesided.Core
	life    uint64
	number  uint64
	waiting map[multicast.MessageID]uint64 // tokens

	mu        sync.Mutex
	delivered []string
	leads     bool
}

func (o *ordering) Step(in *turn.Input, out *turn.Output) {
	for _, call := range in.Requests {
		o.number++
		id := multicast.MessageID{Sender: o.self, Seq: o.life<<32 + o.number}
		o.waiting[id] = call.Token
		in.Proposed = append(in.Proposed, multicast.Message{ID: id, Dest: []multicast.GroupID{0}, Payload: call.Data})
	}
	o.core.Complete(in.Completions)
	o.core.Step(&in.Input, &out.Output)
	out.Rights, out.Ops = o.core.Effects(out.Rights, out.Ops)
}

func (*ordering) Syncs(*turn.Output) bool { return false }

func (o *ordering) Apply(out *turn.Output) (replies []turn.Call, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leads = o.core.Leads()
	for _, d := range out.Deliveries {
		o.delivered = append(o.delivered, string(d.Payload))
		if token, mine := o.waiting[d.ID]; mine {
			delete(o.waiting, d.ID)
			replies = append(replies, turn.Call{Token: token, Data: d.Payload})
		}
	}
	return replies, nil
}

func (*ordering) Wake() time.Duration { return 0 }

func (o *ordering) get() ([]string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.delivered), o.leads
}

// keptLog keeps records for the next life of a process.
type keptLog struct{ records [][]byte }

func (l *keptLog) Append(records [][]byte, checkpoint bool) error {
	if checkpoint {
		l.records = nil
	}
	l.records = append(l.records, records...)
	return nil
}
func (*keptLog) Sync() error       { return nil }
func (*keptLog) Synchronous() bool { return true }

// trio is a group of three processes in one-sided memory over connections.
type trio struct {
	t       *testing.T
	network *transport.Local
	members [4]*trioMember // from 1 on

	shares net.Listener // with provider shm, the members share memory over its sockets; nil: provider soft

	mu        sync.Mutex
	endpoints [4]provider
	serving   sync.WaitGroup
}

// provider is one-sided memory that serves connections.
type provider interface {
	fabric.Endpoint
	Serve(peer fabric.NodeID, conn net.Conn) error
}

type trioMember struct {
	*Driver
	node  *ordering
	log   keptLog
	stop  context.CancelFunc
	ended chan error
	life  uint64
}

func newTrio(t *testing.T, shares net.Listener) *trio {
	g := &trio{t: t, network: transport.NewLocal(nil), shares: shares}
	for i := 1; i < len(g.members); i++ {
		g.members[i] = &trioMember{}
		g.start(i)
	}
	t.Cleanup(func() {
		for i := 1; i < len(g.members); i++ {
			g.halt(i)
		}
		require.NoError(t, g.network.Close())
		g.serving.Wait()
	})
	return g
}

// dial connects a process to another one.
func (g *trio) dial(from int, to fabric.NodeID) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	peer := g.endpoints[to]
	if peer == nil {
		return nil, errors.New("it does not run")
	}
	here, there := net.Pipe()
	if g.shares != nil {
		var errs [2]error
		here, errs[0] = net.Dial("unix", g.shares.Addr().String())
		there, errs[1] = g.shares.Accept()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
	}
	g.serving.Go(func() { _ = peer.Serve(fabric.NodeID(from), there) })
	return here, nil
}

// provide makes the memory of a member.
func (g *trio) provide(i int) (provider, error) {
	dial := func(_ context.Context, to fabric.NodeID) (net.Conn, error) { return g.dial(i, to) }
	if g.shares == nil {
		return soft.New(soft.Config{Self: fabric.NodeID(i), Dial: dial})
	}
	return shm.New(shm.Config{Self: fabric.NodeID(i), Dial: dial, Patience: time.Millisecond})
}

func (g *trio) start(i int) {
	m, self := g.members[i], multicast.ProcessID(i)
	m.life++
	core, err := onesided.New(onesided.Config{
		Self: self, Group: multicast.Group{Members: []multicast.ProcessID{1, 2, 3}},
		SlotSize: 256, Slots: 16, SuspectAfter: 100 * time.Millisecond, Seed: m.life,
	})
	require.NoError(g.t, err)
	for _, record := range m.log.records {
		require.NoError(g.t, core.Replay(record))
	}
	endpoint, err := g.provide(i)
	require.NoError(g.t, err)
	for _, region := range core.Regions() {
		memory, err := endpoint.Register(region.ID, region.Size)
		require.NoError(g.t, err)
		core.Attach(region.ID, memory)
	}
	g.mu.Lock()
	g.endpoints[i] = endpoint
	g.mu.Unlock()
	network := g.network.Endpoint(self)
	links, err := network.Links(m.life)
	require.NoError(g.t, err)
	m.node = &ordering{self: self, core: core, life: m.life, waiting: map[multicast.MessageID]uint64{}}
	m.Driver = New(self, m.node, links, &m.log, NewSystemClock())
	m.UseMemory(endpoint)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	m.stop, m.ended = stop, ended
	go func() {
		err := m.Run(ctx)
		ended <- errors.Join(err, network.Close())
	}()
}

func (g *trio) halt(i int) {
	m := g.members[i]
	if m.stop == nil {
		return
	}
	m.stop()
	m.stop = nil
	require.NoError(g.t, <-m.ended)
	g.mu.Lock()
	g.endpoints[i] = nil
	g.mu.Unlock()
}

// work has members order requests, each one several at a time.
func (g *trio) work(round string, members ...int) {
	g.t.Helper()
	var asking sync.WaitGroup
	for _, i := range members {
		for n := range 40 {
			asking.Go(func() {
				text := fmt.Sprintf("%s-%d-%d", round, i, n)
				answer, err := g.members[i].Handle(g.t.Context(), nil, []byte(text))
				if err != nil || string(answer) != text {
					g.t.Errorf("%s: answer %q, %v", text, answer, err)
				}
			})
		}
	}
	asking.Wait()
}

// agree waits until members have delivered a number of requests, each once, in one order.
func (g *trio) agree(count int, members ...int) {
	g.t.Helper()
	for _, i := range members {
		require.Eventually(g.t, func() bool { all, _ := g.members[i].node.get(); return len(all) >= count }, time.Minute, time.Millisecond)
	}
	first, _ := g.members[members[0]].node.get()
	require.Len(g.t, first, count)
	for _, i := range members[1:] {
		other, _ := g.members[i].node.get()
		require.Equal(g.t, first, other)
	}
	slices.Sort(first)
	require.Len(g.t, slices.Compact(first), count, "a request was delivered twice")
}

// leader returns the first of some members that leads.
func (g *trio) leader(members ...int) (leader int) {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		leader = slices.IndexFunc(members, func(i int) bool { _, leads := g.members[i].node.get(); return leads })
		return leader >= 0
	}, time.Minute, time.Millisecond, "nobody leads")
	return members[leader]
}

// TestOneSidedGroup: drivers step an order in one-sided memory. Its leader stops, and comes back with its
// log; then all stop and come back. The memory of provider shm runs turns itself.
func TestOneSidedGroup(t *testing.T) {
	t.Run("soft", func(t *testing.T) { testGroup(t, newTrio(t, nil)) })
	t.Run("shm", func(t *testing.T) { testGroup(t, newTrio(t, sockets(t))) })
}

// Memory of provider shm runs turns itself.
var _ notifier = (*shm.Endpoint)(nil)

// sockets returns a listener for the sockets of a trio.
func sockets(t *testing.T) net.Listener {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func testGroup(t *testing.T, g *trio) {
	g.work("begin", 1, 2, 3)
	g.agree(120, 1, 2, 3)

	gone := g.leader(1, 2, 3)
	others := slices.DeleteFunc([]int{1, 2, 3}, func(i int) bool { return i == gone })
	g.halt(gone)
	g.work("without", others...)
	g.agree(200, others...)
	g.leader(others...)

	g.start(gone)
	g.work("back", 1, 2, 3)
	g.agree(320, 1, 2, 3)

	for i := range 3 {
		g.halt(i + 1)
	}
	for i := range 3 {
		g.start(i + 1)
	}
	g.work("again", 1, 2, 3)
	g.agree(440, 1, 2, 3)
}
