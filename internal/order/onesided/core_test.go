package onesided

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var _ interface {
	order.Recovered
	order.OneSided
} = (*Core)(nil)

// member is a process with a Core.
type member struct {
	*Core
	endpoint *fabricsim.Endpoint
	log      [][]byte
	in       multicast.Input
	out      multicast.Output // of the last step
	got      []multicast.Delivery
	frames   int
	lazy     bool // its state machine is not durable
}

// group is the processes 1 to 3, and those that have taken their seats over.
type group struct {
	t       *testing.T
	net     *fabricsim.Network
	config  Config
	members map[multicast.ProcessID]*member
	order   []multicast.ProcessID
}

func newGroup(t *testing.T) *group {
	g := &group{
		t: t, net: fabricsim.New(fabricsim.Default()), members: map[multicast.ProcessID]*member{},
		config: Config{
			Group: multicast.Group{ID: 7, Members: []multicast.ProcessID{1, 2, 3}},
			Slots: 8, SlotSize: 256, Keep: 64, SuspectAfter: time.Millisecond,
		},
	}
	for p := range multicast.ProcessID(3) {
		g.start(p+1, multicast.Position{}, nil)
	}
	return g
}

// start starts a process with a log.
func (g *group) start(p multicast.ProcessID, at multicast.Position, log [][]byte) *member {
	cfg := g.config
	cfg.Self, cfg.Delivered = p, at
	core, err := New(cfg)
	require.NoError(g.t, err)
	for _, record := range log {
		require.NoError(g.t, core.Replay(record))
	}
	m := &member{Core: core, endpoint: g.net.Node(fabric.NodeID(p)), log: log}
	for _, r := range core.Regions() {
		memory, err := m.endpoint.Register(r.ID, r.Size)
		require.NoError(g.t, err)
		core.Attach(r.ID, memory)
	}
	if g.members[p] == nil {
		g.order = append(g.order, p)
	}
	g.members[p] = m
	return m
}

func (g *group) stop(p multicast.ProcessID) {
	g.net.Crash(fabric.NodeID(p))
	g.members[p].endpoint = nil
}

// step lets each process that runs take a step, again and again, until something holds.
func (g *group) until(what func() bool, text string) {
	g.t.Helper()
	for end := g.net.Now() + time.Second; !what(); {
		require.Less(g.t, g.net.Now(), end, text)
		g.net.Run(g.net.Now() + 20*time.Microsecond)
		for _, p := range g.order {
			if m := g.members[p]; m.endpoint != nil {
				g.step(p, m)
			}
		}
	}
}

func (g *group) step(p multicast.ProcessID, m *member) {
	var events fabric.Events
	m.endpoint.Poll(&events)
	m.Complete(events.Completions)
	m.in.Now.Mono = g.net.Now()
	m.out.Reset()
	m.Step(&m.in, &m.out)
	m.in.Reset()
	if m.out.Checkpoint {
		m.log = nil
	}
	m.log = append(m.log, m.out.Records...)
	rights, ops := m.Effects(nil, nil)
	for _, right := range rights {
		change := m.endpoint.Grant
		if right.Revoke {
			change = m.endpoint.Revoke
		}
		require.NoError(g.t, change(right.Region, right.Peer, right.Rights))
	}
	require.NoError(g.t, m.endpoint.Post(ops...))
	m.frames += len(m.out.Frames)
	for _, f := range m.out.Frames {
		if to := g.members[f.Peer]; to != nil {
			to.in.Frames = append(to.in.Frames, multicast.Frame{Peer: p, Data: f.Data})
		}
	}
	if m.got = append(m.got, m.out.Deliveries...); len(m.got) > 0 && !m.lazy {
		m.in.Covered = multicast.UpTo(m.got[len(m.got)-1].Position())
	}
}

// propose gives a message to its sender.
func (g *group) propose(p multicast.ProcessID, seq uint64, size int) {
	m := multicast.Message{
		ID: multicast.MessageID{Sender: p, Seq: seq}, Dest: []multicast.GroupID{7},
		Payload: bytes.Repeat([]byte{byte(seq)}, size), Durable: seq%2 == 0,
	}
	g.members[p].in.Proposed = append(g.members[p].in.Proposed, m)
}

// all waits until processes have delivered so many messages, and demands that they are the same.
func (g *group) all(count int, ps ...multicast.ProcessID) {
	g.t.Helper()
	g.until(func() bool {
		for _, p := range ps {
			if len(g.members[p].got) < count {
				return false
			}
		}
		return true
	}, fmt.Sprintf("processes %v deliver %d messages", ps, count))
	for _, p := range ps[1:] {
		require.Equal(g.t, g.members[ps[0]].got, g.members[p].got)
	}
}

// Long and short messages of all members are delivered in one order, with all their fields.
func TestCore(t *testing.T) {
	g := newGroup(t)
	for seq := range uint64(20) {
		for p := range multicast.ProcessID(3) {
			g.propose(p+1, seq+1, int(seq)*60)
		}
	}
	g.all(60, 1, 2, 3)
	for _, d := range g.members[1].got {
		require.Equal(t, bytes.Repeat([]byte{byte(d.ID.Seq)}, int(d.ID.Seq-1)*60), append([]byte{}, d.Payload...))
		require.Equal(t, d.ID.Seq%2 == 0, d.Durable)
		require.Equal(t, []multicast.GroupID{7}, d.Dest)
	}
	require.True(t, g.members[1].Leads())
	require.Equal(t, []multicast.ProcessID{1, 2, 3}, g.members[2].Members(7))
	require.Empty(t, g.members[2].Members(8))
}

// TestIdleLeader: a leader of an idle group that stops is replaced, and one that runs is not.
func TestIdleLeader(t *testing.T) {
	g := newGroup(t)
	g.until(func() bool { return g.net.Now() > 50*time.Millisecond }, "time passes")
	require.True(t, g.members[1].Leads())
	require.Positive(t, g.members[1].frames)
	for p := range multicast.ProcessID(3) {
		require.Zero(t, g.members[p+1].Stats().Campaigns, "nobody had a reason to stand")
	}
	g.stop(1)
	g.until(func() bool { return g.members[2].Leads() || g.members[3].Leads() }, "another member leads")
}

// TestRestartInPieces: a state machine that is in the middle of a message gets all of it after a restart.
func TestRestartInPieces(t *testing.T) {
	g := newGroup(t)
	for _, p := range g.order {
		g.members[p].lazy = true
	}
	g.propose(1, 1, 10)
	g.propose(2, 2, 3000)
	g.propose(3, 3, 10)
	g.all(3, 1, 2, 3)
	at := g.members[3].got[0].Position()
	g.until(func() bool {
		for _, p := range g.order {
			g.members[p].in.Covered = multicast.UpTo(at)
		}
		return g.net.Now() > 20*time.Millisecond
	}, "all forget the first message")
	want := g.members[3].got[1:]
	log := append([][]byte{g.members[3].Checkpoint()}, g.members[3].log...)
	g.stop(3)
	m := g.start(3, at, log[:1])
	g.until(func() bool { return len(m.got) >= 2 }, "the rest is delivered again")
	require.Equal(t, want, m.got)
	require.EqualValues(t, 1, m.core.Life())
}

// TestSeatTakenOver: a new process takes the seat of one that runs on, catches up, and has a vote; the old
// one writes nothing any more.
func TestSeatTakenOver(t *testing.T) {
	g := newGroup(t)
	g.propose(1, 1, 500)
	g.all(1, 1, 2, 3)
	g.config.Replaced = []multicast.Replacement{{Old: 3, New: 9}}
	fresh := g.start(9, multicast.Position{}, nil)
	for _, p := range []multicast.ProcessID{1, 2} {
		g.members[p].in.Replace = []multicast.Replacement{{Old: 3, New: 9}, {Old: 0, New: 8}, {Old: 1, New: 0}}
	}
	g.all(1, 1, 9)
	g.until(func() bool { return !fresh.Amnesiac() }, "the new process has a vote")
	require.Equal(t, []multicast.ProcessID{1, 2, 9}, g.members[1].Members(7))
	require.Equal(t, g.members[1].Members(7), fresh.Members(7))
	g.propose(3, 5, 10)
	g.propose(9, 6, 700)
	g.all(2, 1, 2, 9)
	require.EqualValues(t, 9, fresh.got[1].ID.Sender)
	require.Len(t, g.members[3].got, 1)
	g.members[3].Leave()
	g.step(3, g.members[3])
	require.True(t, g.members[3].out.Retired)
	g.stop(3)
	g.stop(2)
	g.propose(9, 7, 10)
	g.all(3, 1, 9)
	former := g.start(3, multicast.Position{}, nil)
	g.step(3, former)
	require.True(t, former.out.Retired, "also after a restart")
}

// In a chain of replacements, each replacement names the last process of the chain.
func TestChain(t *testing.T) {
	born := multicast.Group{Members: []multicast.ProcessID{1, 2, 3}}
	plan := []multicast.Replacement{{Old: 1, New: 4}, {Old: 4, New: 5}, {Old: 2, New: 6}}
	all := newSeats(&born, plan)
	require.Equal(t, []multicast.ProcessID{5, 6, 3}, all.nodes())
	at := newSeats(&born, nil)
	at.take([]multicast.Replacement{{Old: 1, New: 5}, {Old: 4, New: 5}, {Old: 2, New: 6}})
	require.Equal(t, all.all(), at.all(), "as one that has read the plan")
	later := newSeats(&born, plan[:1])
	later.take([]multicast.Replacement{{Old: 1, New: 5}, {Old: 4, New: 5}})
	require.Equal(t, all.of(5).tram(), later.of(5).tram())
	require.Empty(t, later.take([]multicast.Replacement{{Old: 4, New: 5}}), "asked for again")
	require.NotNil(t, later.formerly(4))
	require.Nil(t, later.of(4))
}

// TestBehindGivesNoState: the state of a process that lacks entries does not fit to its state machine.
func TestBehindGivesNoState(t *testing.T) {
	g := newGroup(t)
	g.propose(1, 1, 10)
	g.all(1, 1, 2, 3)
	record, at, err := g.members[2].Adopt(g.members[1].State())
	require.NoError(t, err)
	require.NotEmpty(t, record)
	require.Equal(t, multicast.UpTo(g.members[1].got[0].Position()).Of("").Final, at.Of("").Final)
	g.members[1].behind = true
	_, _, err = g.members[2].Adopt(g.members[1].State())
	require.Error(t, err)
}

// TestProbesAreFree: an order continues after more probes than its log may keep, also after a restart,
// because the state machine needs no probes.
func TestProbesAreFree(t *testing.T) {
	g := newGroup(t)
	g.propose(1, 1, 10)
	g.all(1, 1, 2, 3)
	at := g.members[3].got[0].Position()
	count := 0
	g.until(func() bool {
		for _, p := range g.order { // a turn asks for a probe
			if m := g.members[p]; !m.watch.probing {
				m.watch.lastActive = -time.Second
			}
		}
		count = int(g.members[3].pieces.at)
		return count > 3*g.config.Keep
	}, "probes are ordered")
	m := g.members[3]
	log := append([][]byte{m.Checkpoint()}, m.log[len(m.log):]...)
	g.stop(3)
	m = g.start(3, at, log)
	g.propose(1, 2, 10)
	g.all(2, 1, 2)
	g.until(func() bool { return len(m.got) == 1 }, "it lacks nothing")
	require.Equal(t, g.members[1].got[1:], m.got)
	require.Empty(t, m.out.Behind)
}

// A replacement that is asked for until both orders have it counts once, also if its chain grows
// meanwhile: all members and the new process give it the same generation. A process that no member has
// seen knows that it has left.
func TestGrowingChain(t *testing.T) {
	group := multicast.Group{ID: 7, Members: []multicast.ProcessID{1, 2, 3}}
	steps := []multicast.Replacement{{Old: 1, New: 4}, {Old: 4, New: 5}, {Old: 5, New: 6}}
	fresh := newSeats(&group, steps)
	late := newSeats(&group, nil)
	first := late.take([]multicast.Replacement{{Old: 1, New: 5}, {Old: 4, New: 5}})
	require.Equal(t, newSeats(&group, steps[:2]).all(), first)
	require.Empty(t, late.take([]multicast.Replacement{{Old: 1, New: 5}, {Old: 4, New: 5}}), "asked for again")
	second := late.take([]multicast.Replacement{{Old: 1, New: 6}, {Old: 4, New: 6}, {Old: 5, New: 6}})
	require.Equal(t, fresh.all(), second)
	require.NotNil(t, late.formerly(4))
}
