package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// between is the order between partitions of a test: a list, from which each partition takes its entries.
type between struct{ list []multicast.Delivery }

// part is the core of one replica in it.
type part struct {
	orderer
	order  *between
	group  multicast.GroupID
	passed int
}

func (p *part) Step(in *multicast.Input, out *multicast.Output) {
	for _, m := range in.Proposed {
		p.order.list = append(p.order.list, multicast.Delivery{Message: m, Final: multicast.Timestamp(len(p.order.list) + 1)})
	}
	for ; p.passed < len(p.order.list); p.passed++ {
		if d := p.order.list[p.passed]; d.To(p.group) {
			out.Deliveries = append(out.Deliveries, d)
		}
	}
}

// several is two partitions of one replica each, which talk in frames that a test may drop.
type several struct {
	t     *testing.T
	order between
	nodes [2]*fixture
	cut   bool                    // frames are lost
	loses func(from, to int) bool // which frames are lost
	wire  [2][]multicast.Frame    // to be received
	got   map[uint64]ask.Reply    // by token
	keys  ask.Keys                // of vectors; from the next restart on
}

func newSeveral(t *testing.T) *several {
	s := &several{t: t, got: map[uint64]ask.Reply{}}
	for i := range s.nodes {
		s.nodes[i] = &fixture{t: t, core: &orderer{}, keys: kv.NewMemory()}
		s.restart(i)
	}
	for i := range s.nodes {
		s.ask(i, ask.Request{Kind: ask.OpenSession, Session: 7})
	}
	return s
}

// restart makes the replica of partition i anew over its store.
func (s *several) restart(i int) {
	f := s.nodes[i]
	machine, err := meta.New(f.keys, meta.Config{Partition: uint16(i)})
	require.NoError(s.t, err)
	_, relayed, err := Positions(f.keys)
	require.NoError(s.t, err)
	var last multicast.Timestamp
	for _, x := range relayed {
		last = max(last, x.Position.Final)
	}
	f.Replica, err = New(Config{Partition: uint16(i), Self: multicast.ProcessID(i + 1), Groups: allGroups, Incarnation: 1 + f.incarnation, Sealer: s.keys},
		f.core, &part{order: &s.order, group: multicast.GroupID(i), passed: int(last)}, f.keys, machine)
	f.incarnation++
	require.NoError(s.t, err)
}

// turn steps partition i once, with requests.
func (s *several) turn(i int, requests ...turn.Call) {
	f := s.nodes[i]
	in := turn.Input{Input: multicast.Input{Now: multicast.Instant{Mono: f.mono + 1, Wall: 1e18}, Frames: s.wire[i]}, Requests: requests}
	s.wire[i] = nil
	var out turn.Output
	f.Step(&in, &out)
	replies, err := f.Apply(&out)
	require.NoError(s.t, err)
	for _, c := range append(out.Replies, replies...) {
		s.got[c.Token], err = ask.DecodeReply(c.Data)
		require.NoError(s.t, err)
	}
	for _, frame := range out.Frames {
		lost := s.cut || s.loses != nil && s.loses(i, int(frame.Peer)-1)
		if !lost && int(frame.Peer) <= len(s.nodes) {
			s.wire[frame.Peer-1] = append(s.wire[frame.Peer-1], multicast.Frame{Peer: f.cfg.Self, Data: frame.Data})
		}
	}
}

// settle steps both until no event is left.
func (s *several) settle() {
	for range 30 {
		s.turn(0)
		s.turn(1)
	}
}

// sleep lets time pass for both.
func (s *several) sleep(d time.Duration) {
	for _, f := range s.nodes {
		f.mono += d
	}
	s.settle()
}

func (s *several) send(i int, q ask.Request) (token uint64) {
	s.nodes[0].token++
	s.turn(i, turn.Call{Token: s.nodes[0].token, Data: q.Append(nil)})
	return s.nodes[0].token
}

func (s *several) ask(i int, q ask.Request) ask.Reply {
	s.t.Helper()
	token := s.send(i, q)
	s.settle()
	require.Contains(s.t, s.got, token, "not answered")
	return s.got[token]
}

func result(t *testing.T, p ask.Reply) meta.Result {
	t.Helper()
	require.Equal(t, ask.Answered, p.Status, "%s", p.Result)
	m, err := meta.DecodeResult(p.Result)
	require.NoError(t, err)
	return m
}

// file makes a file in the root of partition 0.
func (s *several) file(name string, seq uint64) posix.Ino {
	c := mknod(name)
	m := result(s.t, s.ask(0, ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Done: seq - 1, Command: c.Append(nil)}))
	require.Equal(s.t, posix.OK, m.Code)
	return m.Attr.Ino
}

// rename moves a file from partition 0 to partition 1.
func rename(name string, ino posix.Ino, seq uint64) ask.Request {
	c := meta.Command{
		Op: meta.OpRename, Ino: posix.Root, Name: name, NewParent: posix.MakeIno(1, 1), NewName: name, Child: ino, Target: 1,
	}
	return ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Done: seq - 1, Dest: []uint16{0, 1}, Command: c.Append(nil)}
}

func lookup(dir posix.Ino, name string) ask.Request {
	c := meta.Command{Op: meta.OpLookup, Ino: dir, Name: name}
	return ask.Request{Kind: ask.Query, Command: c.Append(nil)}
}

func (s *several) isAt(partition int, name string) {
	s.t.Helper()
	for i := range s.nodes {
		want := posix.ENOENT
		if i == partition {
			want = posix.OK
		}
		m := result(s.t, s.ask(i, lookup(posix.MakeIno(uint16(i), 1), name)))
		require.Equal(s.t, want, m.Code, "%s in partition %d", name, i)
	}
}

func TestACommandOfTwoPartitions(t *testing.T) {
	s := newSeveral(t)
	p := s.ask(0, rename("a", s.file("a", 1), 2))
	require.Equal(t, posix.OK, result(t, p).Code)
	seen := p.Vector.Of(1)
	require.NotZero(t, seen.LastOpen(), "the client knows that the other party may not have executed it")
	s.isAt(1, "a")
	s.sleep(time.Second)
	for _, f := range s.nodes {
		require.Empty(t, dump(f.keys, 0x43), "both have forgotten it")
		require.Zero(t, f.cross.Undecided())
	}
}

// I2: the answer is remembered where the client asks, and a repeated command has no second effect.
func TestACommandOfTwoPartitionsIsExecutedOnce(t *testing.T) {
	s := newSeveral(t)
	q := rename("a", s.file("a", 1), 2)
	first := s.ask(0, q)
	s.restart(0)
	require.Equal(t, first.Result, s.ask(0, q).Result)
	s.file("a", 3)
	s.isAtBoth("a")
	// The same update, proposed twice before either was ordered: two messages.
	twice := rename("b", s.file("b", 4), 5)
	tokens := []uint64{s.send(0, twice), s.send(0, twice)}
	s.settle()
	for _, token := range tokens {
		require.Equal(t, posix.OK, result(t, s.got[token]).Code)
	}
	s.isAt(1, "b")
}

func (s *several) isAtBoth(name string) {
	for i := range s.nodes {
		require.Equal(s.t, posix.OK, result(s.t, s.ask(i, lookup(posix.MakeIno(uint16(i), 1), name))).Code)
	}
}

func TestACommandOfAnUnknownSessionHasNoEffect(t *testing.T) {
	s := newSeveral(t)
	q := rename("a", s.file("a", 1), 2)
	q.Session = 8
	require.Equal(t, ask.UnknownSession, s.ask(0, q).Status)
	s.isAt(0, "a")
	s.sleep(time.Second)
	require.Zero(t, s.nodes[1].cross.Undecided())
}

// T 3.4.3: lost votes are requested again, also by a replica that has restarted. An undecided command holds
// its names: an update of one of them waits.
func TestVotesAreAskedForAgain(t *testing.T) {
	s := newSeveral(t)
	ino := s.file("a", 1)
	s.ask(0, rename("none", 5, 2)) // both are in reach
	s.cut = true
	s.send(0, rename("a", ino, 3))
	s.settle()
	s.restart(0)
	s.restart(1)
	s.settle()
	c := meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "a"}
	held := s.send(0, ask.Request{Kind: ask.Update, Session: 7, Seq: 4, Done: 2, Command: c.Append(nil)})
	s.settle()
	require.NotContains(t, s.got, held)
	other := mknod("other")
	require.Equal(t, posix.OK, result(t, s.ask(0, ask.Request{Kind: ask.Update, Session: 7, Seq: 5, Done: 2, Command: other.Append(nil)})).Code)
	s.cut = false
	s.sleep(time.Second)
	s.isAt(1, "a")
	require.Equal(t, posix.OK, result(t, s.ask(0, rename("a", ino, 3))).Code, "its answer is kept")
	require.Equal(t, posix.ENOENT, result(t, s.got[held]).Code)
}

// A coordinator that receives nothing from the other party aborts, and releases the names. The client is
// answered with ETIMEDOUT when its time is over, and the update never happens.
func TestACutCommandIsAborted(t *testing.T) {
	s := newSeveral(t)
	ino := s.file("a", 1)
	s.ask(0, rename("none", 5, 2))
	s.cut = true
	q := rename("a", ino, 3)
	q.Patience = 5 * time.Second
	token := s.send(0, q)
	s.settle()
	require.Equal(t, 1, s.nodes[0].cross.Undecided())
	require.Equal(t, 1, s.nodes[1].cross.Undecided(), "it has voted")
	s.sleep(cross.VotePatience)
	require.Zero(t, s.nodes[0].cross.Undecided())
	require.NotContains(t, s.got, token, "it waits for the other party")
	require.Equal(t, posix.OK, result(t, s.ask(0, write(ino, 4))).Code, "what it held is free")
	s.sleep(5 * time.Second)
	require.Equal(t, posix.ETIMEDOUT, result(t, s.got[token]).Code)
	require.Equal(t, 1, s.nodes[1].cross.Undecided(), "nothing but the outcome releases a vote")
	s.cut = false
	s.sleep(10 * time.Second)
	require.Zero(t, s.nodes[1].cross.Undecided())
	s.isAt(0, "a")
	require.Equal(t, posix.ETIMEDOUT, result(t, s.ask(0, q)).Code, "for ever")
}

// write writes to a file in partition 0.
func write(ino posix.Ino, seq uint64) ask.Request {
	c := meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x"), Length: 1}
	return ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Done: 1, Command: c.Append(nil)}
}

// A query waits for an undecided command only if its reader has seen the commit, and it touches the query's
// objects.
func TestAQueryWaitsForAnOutcome(t *testing.T) {
	s := newSeveral(t)
	ino := s.file("a", 1)
	s.ask(0, rename("none", 5, 2))
	s.loses = func(from, to int) bool { return from == 0 } // votes arrive, outcomes do not
	done := s.ask(0, rename("a", ino, 3))
	require.Equal(t, posix.OK, result(t, done).Code)
	q := lookup(posix.MakeIno(1, 1), "a")
	require.Equal(t, posix.ENOENT, result(t, s.ask(1, q)).Code, "a reader that has not seen the commit")
	q.Vector = done.Vector
	waits := s.send(1, q)
	fresh := s.send(1, ask.Request{Kind: ask.Query, Fresh: true, Command: q.Command})
	other := lookup(posix.MakeIno(1, 1), "other")
	other.Vector = done.Vector
	s.settle()
	require.NotContains(t, s.got, waits)
	require.NotContains(t, s.got, fresh)
	require.Equal(t, posix.ENOENT, result(t, s.ask(1, other)).Code, "another name of the same directory")
	s.loses = nil
	s.sleep(time.Second)
	require.Equal(t, posix.OK, result(t, s.got[waits]).Code)
	require.Equal(t, posix.OK, result(t, s.got[fresh]).Code)
}

// An entry that follows from the commit of a command undecided here marks the command: a reader of the entry
// waits, although its vector does not show the commit.
func TestAMarkedCommandIsWaitedFor(t *testing.T) {
	s := newSeveral(t)
	ino := s.file("a", 1)
	s.ask(0, rename("none", 5, 2))
	s.loses = func(from, to int) bool { return from == 0 }
	done := s.ask(0, rename("a", ino, 3))
	follows := meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(1, 1), Name: "follows", Mode: posix.TypeRegular | 0o644}
	update := ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Vector: done.Vector, Command: follows.Append(nil)}
	require.Equal(t, posix.OK, result(t, s.ask(1, update)).Code)
	s.restart(1)
	seen := s.ask(1, lookup(posix.MakeIno(1, 1), "follows"))
	q := lookup(posix.MakeIno(1, 1), "a")
	waits := s.send(1, q)
	s.settle()
	require.NotContains(t, s.got, waits)
	own := seen.Vector.Of(1)
	require.NotZero(t, own.LastOpen())
	s.loses = nil
	s.sleep(time.Second)
	require.Equal(t, posix.OK, result(t, s.got[waits]).Code)
}

// The first update after a pause is proposed at once. If the other party does not answer, the update is
// aborted. Neither this update nor others are proposed again before the party is in reach. They are given up.
func TestOutOfReach(t *testing.T) {
	s := newSeveral(t)
	ino := s.file("a", 1)
	s.sleep(10 * time.Second)
	s.cut = true
	first := s.send(0, rename("a", ino, 2))
	s.settle()
	require.Len(t, s.order.list, 1)
	s.sleep(cross.VotePatience)
	second := s.send(0, rename("b", ino, 3))
	s.sleep(4 * time.Second)
	require.NotContains(t, s.got, first)
	require.NotContains(t, s.got, second)
	s.sleep(9 * time.Second)
	require.Equal(t, ask.Overloaded, s.got[first].Status)
	require.Equal(t, ask.Overloaded, s.got[second].Status)
	require.Len(t, s.order.list, 1)
	s.cut = false
	s.sleep(time.Second)
	require.Equal(t, posix.OK, result(t, s.ask(0, rename("a", ino, 2))).Code)
}

// A vote carries the vector of its partition (causality over three partitions).
func TestVotesCarryWhatTheirPartitionHasSeen(t *testing.T) {
	s := newSeveral(t)
	c := mknod("flag")
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Vector: ask.Vector{{}, {}, {Count: 5}}, Command: c.Append(nil)}
	m := result(t, s.ask(0, q)) // it follows from five updates of partition 2
	require.Equal(t, posix.OK, result(t, s.ask(0, rename("flag", m.Attr.Ino, 2))).Code)
	p := s.ask(1, lookup(posix.MakeIno(1, 1), "flag"))
	require.Equal(t, m.Attr.Ino, result(t, p).Attr.Ino)
	require.EqualValues(t, 5, p.Vector.Of(2).Count)
}

// A command that was refused for a long time keeps its place: while its parties are in reach it is not
// returned to its client, which would lose its age.
func TestARefusedCommandKeepsItsAge(t *testing.T) {
	c, _, _ := newHeld(t, 1)
	mine := c.file(8, 1, spot{2, "mine"})
	c.isolate(0)
	c.run(tick)
	token := c.send(c.of(2)[0], move(8, 2, mine, spot{2, "mine"}, spot{1, "b"}))
	c.run(20 * time.Second)
	require.False(t, c.isAnswered(token), "%v", c.got[token].Status)
	c.heal()
	c.run(10 * time.Second)
	require.Contains(t, []posix.Code{posix.OK, posix.EREMOTE}, result(t, c.got[token]).Code)
}
