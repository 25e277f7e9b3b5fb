package replica

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const partitions = 3

// tick is the time between two steps of a replica.
const tick = 50 * time.Millisecond

// listCore is a core of an order that is a list. It delivers the entries for its group.
type listCore struct {
	orderer
	member *member
	list   *[]multicast.Delivery
	passed int
	later  []multicast.Delivery // of a class that is held
}

func (l *listCore) Leads() bool { return l.member.cluster.leader[l.member.partition] == l.member }
func (l *listCore) Members(g multicast.GroupID) []multicast.ProcessID {
	if groups := l.member.cluster.groups; int(g) < len(groups) {
		return groups[g].Members
	}
	return nil
}

func (l *listCore) Step(in *multicast.Input, out *multicast.Output) {
	for _, m := range in.Proposed {
		*l.list = append(*l.list, multicast.Delivery{Message: m, Final: multicast.Timestamp(len(*l.list) + 1)})
	}
	m, c := l.member, l.member.cluster
	if l.list == &c.between && m.isHeld {
		return
	}
	if m.heldClass == "" {
		out.Deliveries, l.later = append(out.Deliveries, l.later...), nil
	}
	most := len(*l.list)
	if c.lag > 0 {
		most = c.random.IntN(c.lag)
	}
	for ; l.passed < len(*l.list) && most > 0; l.passed++ {
		switch d := (*l.list)[l.passed]; {
		case !d.To(multicast.GroupID(m.partition)):
		case l.list == &c.between && multicast.ClassOf(d.Dest) == m.heldClass:
			l.later = append(l.later, d)
		default:
			out.Deliveries = append(out.Deliveries, d)
			most--
		}
	}
}

// member is one replica of a cluster.
type member struct {
	cluster   *cluster
	partition uint16
	id        multicast.ProcessID
	index     int
	keys      *kv.Store
	starts    uint64
	startedAt time.Duration
	skew      time.Duration   // of its wall clock
	isHeld    bool            // nothing of the order between partitions is delivered here
	heldClass multicast.Class // no message of this class is delivered here
	requests  []turn.Call
	withdrawn []uint64
	*Replica
}

// packet is a frame on its way.
type packet struct {
	at   time.Duration
	from *member
	to   *member
	data []byte
}

// cluster is three partitions in virtual time. Their messages may be lost, repeated and delayed; the orders
// are lists.
type cluster struct {
	t       *testing.T
	random  *rand.Rand
	groups  []multicast.Group
	between []multicast.Delivery
	own     [partitions][]multicast.Delivery
	leader  [partitions]*member
	members []*member
	mono    time.Duration
	wire    []packet
	sent    []packet // all packets, if kept
	keeps   bool
	token   uint64
	got     map[uint64]ask.Reply // by token

	lag   int                            // if not 0: less than so many deliveries of an order in a step
	loss  float64                        // of packets
	twice float64                        // packets that arrive twice
	delay time.Duration                  // at most
	cut   func(from, to *member) bool    // packets that are lost
	stops func(m *member, step int) bool // restarts
	steps int
}

func newCluster(t *testing.T, seed uint64, replicas int) *cluster {
	c := &cluster{t: t, random: rand.New(rand.NewPCG(seed, 1)), got: map[uint64]ask.Reply{}}
	for p := range uint16(partitions) {
		g := multicast.Group{ID: multicast.GroupID(p)}
		for i := range replicas {
			m := &member{cluster: c, partition: p, id: multicast.ProcessID(len(c.members) + 1), index: i, keys: kv.NewMemory()}
			c.members, g.Members = append(c.members, m), append(g.Members, m.id)
		}
		c.groups = append(c.groups, g)
		c.leader[p] = c.members[int(p)*replicas]
	}
	for _, m := range c.members {
		c.restart(m)
	}
	return c
}

// of returns the replicas of a partition.
func (c *cluster) of(p uint16) []*member {
	n := len(c.members) / partitions
	return c.members[int(p)*n : (int(p)+1)*n]
}

// any returns some replica of a partition.
func (c *cluster) any(p uint16) *member { return c.of(p)[c.random.IntN(len(c.of(p)))] }

// restart makes a replica anew over its store.
func (c *cluster) restart(m *member) {
	machine, err := meta.New(m.keys, meta.Config{Partition: m.partition})
	require.NoError(c.t, err)
	position, relayed, err := Positions(m.keys)
	require.NoError(c.t, err)
	m.starts++
	m.startedAt, m.requests = c.mono, nil
	own := &listCore{member: m, list: &c.own[m.partition], passed: int(position.Final)}
	between := &listCore{member: m, list: &c.between, passed: len(c.between)}
	for i := range c.between { // the first that is not relayed
		d := &c.between[i]
		if d.To(multicast.GroupID(m.partition)) && d.Position().Compare(relayed.Of(multicast.ClassOf(d.Dest))) > 0 {
			between.passed = i
			break
		}
	}
	m.Replica, err = New(Config{
		Partition: m.partition, Self: m.id, Index: m.index, Groups: c.groups, Incarnation: m.starts, Lease: 24 * time.Hour,
	}, own, between, m.keys, machine)
	require.NoError(c.t, err)
}

// step steps a replica once.
func (c *cluster) step(m *member) {
	in := turn.Input{Input: multicast.Input{Now: multicast.Instant{
		Mono: c.mono - m.startedAt + 1, Wall: 1e18 + int64(c.mono+m.skew),
	}}, Requests: m.requests, Withdrawn: m.withdrawn}
	m.requests, m.withdrawn = nil, nil
	c.wire = slices.DeleteFunc(c.wire, func(p packet) bool {
		if p.to == m && p.at <= c.mono {
			in.Frames = append(in.Frames, multicast.Frame{Peer: p.from.id, Data: p.data})
			return true
		}
		return false
	})
	c.random.Shuffle(len(in.Frames), func(i, j int) { in.Frames[i], in.Frames[j] = in.Frames[j], in.Frames[i] })
	var out turn.Output
	m.Step(&in, &out)
	replies, err := m.Apply(&out)
	require.NoError(c.t, err)
	for _, r := range append(out.Replies, replies...) {
		c.got[r.Token], err = ask.DecodeReply(r.Data)
		require.NoError(c.t, err)
	}
	for _, f := range out.Frames {
		c.transmit(packet{from: m, to: c.members[f.Peer-1], data: f.Data})
	}
}

func (c *cluster) transmit(p packet) {
	if c.keeps {
		c.sent = append(c.sent, p)
	}
	if c.cut != nil && c.cut(p.from, p.to) || c.random.Float64() < c.loss {
		return
	}
	for first := true; first || c.random.Float64() < c.twice; first = false {
		p.at = c.mono
		if c.delay > 0 {
			p.at += time.Duration(c.random.Int64N(int64(c.delay)))
		}
		c.wire = append(c.wire, p)
	}
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	for end := c.mono + d; c.mono < end; {
		c.tick()
	}
}

// tick steps every replica until no event is left at this time, or once if the schedule is random.
func (c *cluster) tick() {
	c.mono += tick
	rounds := 8
	if c.lag > 0 {
		rounds = 1
	}
	for range rounds {
		for _, i := range c.random.Perm(len(c.members)) {
			m := c.members[i]
			if c.steps++; c.stops != nil && c.stops(m, c.steps) {
				c.restart(m)
			}
			c.step(m)
		}
	}
}

// send hands a request to a replica.
func (c *cluster) send(m *member, q ask.Request) (token uint64) {
	c.token++
	m.requests = append(m.requests, turn.Call{Token: c.token, Data: q.Append(nil)})
	return c.token
}

// ask waits for the reply to a request.
func (c *cluster) ask(m *member, q ask.Request) ask.Reply {
	c.t.Helper()
	token := c.send(m, q)
	for range 20 {
		if c.tick(); c.got[token].Vector != nil {
			return c.got[token]
		}
	}
	require.Fail(c.t, "not answered")
	return ask.Reply{}
}

func (c *cluster) isAnswered(token uint64) bool { return c.got[token].Vector != nil }

// code waits for the answer to a request, and returns its code.
func (c *cluster) code(m *member, q ask.Request) posix.Code {
	c.t.Helper()
	return result(c.t, c.ask(m, q)).Code
}

func (c *cluster) open(session uint64) {
	c.t.Helper()
	for p := range uint16(partitions) {
		require.Equal(c.t, ask.Answered, c.ask(c.of(p)[0], ask.Request{Kind: ask.OpenSession, Session: session}).Status)
	}
}

func root(p uint16) posix.Ino { return posix.MakeIno(p, 1) }

// make is an update that makes a file in the root of a partition.
func create(session, seq uint64, p uint16, name string) ask.Request {
	m := mknod(name)
	m.Ino = root(p)
	return ask.Request{Kind: ask.Update, Session: session, Seq: seq, Done: seq - 1, Command: m.Append(nil)}
}

// spot is a name in the root of a partition.
type spot struct {
	partition uint16
	name      string
}

// move returns an update that gives a file another name.
func move(session, seq uint64, ino posix.Ino, from, to spot) ask.Request {
	m := meta.Command{Op: meta.OpRename, Ino: root(from.partition), Name: from.name, NewParent: root(to.partition), NewName: to.name}
	q := ask.Request{Kind: ask.Update, Session: session, Seq: seq, Done: seq - 1}
	if parties := partiesOf(from.partition, to.partition, ino.Partition()); len(parties) > 1 {
		m.Child, m.Target = ino, to.partition
		q.Dest = parties
	}
	q.Command = m.Append(nil)
	return q
}

func partiesOf(partitions ...uint16) []uint16 {
	slices.Sort(partitions)
	return slices.Compact(partitions)
}

func (s spot) lookup(v ask.Vector) ask.Request {
	q := lookup(root(s.partition), s.name)
	q.Vector = v
	return q
}

// isQuiet checks that nothing of any command is left.
func (c *cluster) isQuiet() {
	c.t.Helper()
	for _, m := range c.members {
		require.Zero(c.t, m.cross.Undecided(), "partition %d", m.partition)
		require.Empty(c.t, dump(m.keys, 0x43), "partition %d: a command is not forgotten", m.partition)
		require.Empty(c.t, dump(m.keys, 0x0b), "partition %d: a hold is left", m.partition)
		require.Empty(c.t, append(m.machine.Undecided(), m.machine.Waiting()...))
		require.Empty(c.t, m.updates.blocked)
		require.Zero(c.t, m.queries.Len())
	}
}

// isSound checks that all replicas of a partition are alike, and that the partitions make one tree.
func (c *cluster) isSound() {
	c.t.Helper()
	var stores []meta.Keys
	for p := range uint16(partitions) {
		first := contents(c.of(p)[0].keys)
		for _, m := range c.of(p) {
			require.Equal(c.t, first, contents(m.keys), "partition %d", p)
		}
		require.Empty(c.t, meta.Check(c.of(p)[0].keys))
		stores = append(stores, c.of(p)[0].keys)
	}
	require.Empty(c.t, meta.CheckAll(stores))
}

// contents commits first: the stored digest is that of the last commit.
func contents(keys *kv.Store) map[string]string {
	if err := keys.Commit(false); err != nil {
		panic(err)
	}
	all := map[string]string{}
	for k, v := range keys.Scan([]byte{0}, []byte{0xff}) {
		all[string(k)] = string(v)
	}
	return all
}

// names returns the files in the roots of all partitions.
func (c *cluster) names() map[spot]posix.Ino {
	all := map[spot]posix.Ino{}
	for p := range uint16(partitions) {
		for offset := uint64(0); ; {
			r := c.of(p)[0].machine.Query(&meta.Command{Op: meta.OpReadDir, Ino: root(p), Offset: offset, Length: 100})
			require.Equal(c.t, posix.OK, r.Code)
			if len(r.Entries) == 0 {
				break
			}
			for _, e := range r.Entries {
				all[spot{p, e.Name}] = e.Attr.Ino
				offset = e.Cookie
			}
		}
	}
	return all
}

// file makes a file, and returns its number.
func (c *cluster) file(session, seq uint64, at spot) posix.Ino {
	c.t.Helper()
	m := result(c.t, c.ask(c.of(at.partition)[0], create(session, seq, at.partition, at.name)))
	require.Equal(c.t, posix.OK, m.Code)
	return m.Attr.Ino
}
