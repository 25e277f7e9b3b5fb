package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// orderer is the smallest core: it alone is the group, and delivers proposals at once.
type orderer struct {
	last     multicast.Timestamp
	retired  bool
	replaces []multicast.Replacement // the last request
}

func (o *orderer) Replay([]byte) error { return nil }
func (o *orderer) Checkpoint() []byte  { return nil }
func (o *orderer) Leads() bool         { return true }
func (o *orderer) Members(g multicast.GroupID) []multicast.ProcessID {
	if int(g) >= len(allGroups) {
		return nil
	}
	return allGroups[g].Members
}

func (o *orderer) State() []byte { return nil }

func (o *orderer) Adopt([]byte) ([]byte, multicast.Progress, error) {
	return nil, nil, errors.New("there is nobody else")
}

func (o *orderer) Step(in *multicast.Input, out *multicast.Output) {
	o.replaces = slices.Clone(in.Replace)
	if out.Retired = o.retired; o.retired {
		return
	}
	for _, m := range in.Proposed {
		o.last++
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: m, Final: o.last})
	}
}

var allGroups = []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1}}, {ID: 1, Members: []multicast.ProcessID{2}}, {ID: 2, Members: []multicast.ProcessID{3}}}

// fixture is one replica of partition 0, and its clock.
type fixture struct {
	t       *testing.T
	core    *orderer
	between *orderer
	keys    *kv.Store
	*Replica
	mono        time.Duration
	token       uint64
	incarnation uint64
	from        *ask.Client // of all requests
	hold        bool        // keep deliveries back
	kept        []multicast.Delivery
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, core: &orderer{}, between: &orderer{}, keys: kv.NewMemory()}
	f.restart()
	return f
}

// count returns the number of entries that were executed.
func (f *fixture) count() uint64 { return f.Vector().Of(f.cfg.Partition).Count }

func (f *fixture) restart() {
	machine, err := meta.New(f.keys, meta.Config{})
	require.NoError(f.t, err)
	f.Replica, err = New(Config{Self: 1, Groups: allGroups, Incarnation: 1, MaxPending: 3}, f.core, f.between, f.keys, machine)
	require.NoError(f.t, err)
}

// step passes requests in and gives the replies by token.
func (f *fixture) step(requests ...ask.Request) map[uint64]ask.Reply {
	in := turn.Input{Input: multicast.Input{Now: multicast.Instant{Mono: f.mono, Wall: 1e18}}}
	for i := range requests {
		f.token++
		in.Requests = append(in.Requests, turn.Call{Token: f.token, Data: requests[i].Append(nil), From: f.from})
	}
	var out turn.Output
	f.Step(&in, &out)
	f.kept = append(f.kept, out.Deliveries...)
	replies := map[uint64]ask.Reply{}
	if !f.hold {
		applied, err := f.Apply(&turn.Output{Output: multicast.Output{Deliveries: f.kept}})
		require.NoError(f.t, err)
		f.kept = nil
		out.Replies = append(out.Replies, applied...)
	}
	for _, c := range out.Replies {
		p, err := ask.DecodeReply(c.Data)
		require.NoError(f.t, err)
		replies[c.Token] = p
	}
	return replies
}

// one is a step with one request that is answered in it.
func (f *fixture) one(q ask.Request) ask.Reply {
	f.t.Helper()
	replies := f.step(q)
	require.Contains(f.t, replies, f.token, "not answered")
	return replies[f.token]
}

func (f *fixture) open(session uint64) {
	require.Equal(f.t, ask.Answered, f.one(ask.Request{Kind: ask.OpenSession, Session: session}).Status)
}

func (f *fixture) do(session, seq uint64, c meta.Command) (ask.Reply, meta.Result) {
	p := f.one(ask.Request{Kind: ask.Update, Session: session, Seq: seq, Done: seq - 1, Command: c.Append(nil)})
	m, _ := meta.DecodeResult(p.Result)
	return p, m
}

func mknod(name string) meta.Command {
	return meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: name, Mode: posix.TypeRegular | 0o644, Flags: meta.Exclusive}
}

func getAttr(i posix.Ino) ask.Request {
	c := meta.Command{Op: meta.OpGetAttr, Ino: i}
	return ask.Request{Kind: ask.Query, Command: c.Append(nil)}
}

func (f *fixture) code(q ask.Request) posix.Code {
	m, err := meta.DecodeResult(f.one(q).Result)
	require.NoError(f.t, err)
	return m.Code
}

func TestARepeatedUpdateGetsItsFirstAnswer(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	_, first := f.do(7, 1, mknod("a"))
	require.Equal(t, posix.OK, first.Code)
	before := f.count()
	_, again := f.do(7, 1, mknod("a"))
	require.Equal(t, first, again)
	require.Equal(t, before, f.count(), "answered without a multicast")
	f.restart()
	_, again = f.do(7, 1, mknod("a"))
	require.Equal(t, first, again, "also after a restart")
	_, _ = f.do(7, 2, mknod("b"))
	p, _ := f.do(7, 1, mknod("c"))
	require.Equal(t, ask.Refused, p.Status, "late, and the client had its answer")
}

func TestTwoOfTheSameUpdateAreOneMulticast(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	f.hold = true
	c := mknod("a")
	q := ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: c.Append(nil)}
	require.Empty(t, f.step(q, q))
	require.Len(t, f.kept, 1)
	f.hold = false
	require.Len(t, f.step(), 2)
}

func TestOverloadIsSaidAtOnce(t *testing.T) {
	f := newFixture(t)
	f.hold = true
	f.step(ask.Request{Kind: ask.OpenSession, Session: 1}, ask.Request{Kind: ask.OpenSession, Session: 2}, ask.Request{Kind: ask.OpenSession, Session: 3})
	require.Equal(t, ask.Overloaded, f.one(ask.Request{Kind: ask.OpenSession, Session: 4}).Status)
}

func TestWrongRequestsAreRefused(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	c := mknod("a")
	require.Equal(t, ask.Refused, f.one(ask.Request{Kind: ask.Query, Command: c.Append(nil)}).Status, "an update as a query")
	require.Equal(t, ask.Refused, f.one(ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: []byte{255}}).Status)
	require.Equal(t, ask.UnknownSession, f.one(ask.Request{Kind: ask.Update, Session: 8, Seq: 1, Command: c.Append(nil)}).Status)
}

func TestAQueryWaitsForWhatItsClientHasSeen(t *testing.T) {
	f := newFixture(t)
	q := getAttr(posix.Root)
	q.Vector = ask.Vector{{Count: 2}}
	require.Empty(t, f.step(q))
	parked := f.token
	f.open(1)
	require.Contains(t, f.step(ask.Request{Kind: ask.OpenSession, Session: 2}), parked)
}

func TestASilentSessionEnds(t *testing.T) {
	f := newFixture(t)
	f.open(7)
	f.mono += session.DefaultLease - time.Second
	require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: 7}).Status)
	f.mono += session.DefaultLease - time.Second
	f.step()
	p, _ := f.do(7, 1, mknod("a"))
	require.Equal(t, ask.Answered, p.Status)
	require.NotZero(t, f.Wake())
	f.mono += 2 * time.Second
	f.step()
	p, _ = f.do(7, 2, mknod("b"))
	require.Equal(t, ask.UnknownSession, p.Status, "updates do not renew")
	require.Empty(t, dump(f.keys, 0x41), "nothing of it is kept")
	require.Empty(t, dump(f.keys, 0x42))
}

func dump(keys *kv.Store, prefix byte) (found []string) {
	for k := range keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
		found = append(found, string(k))
	}
	return found
}

// I4: an unlinked inode is kept while any session holds it, or has not yet declared that it does not.
func TestReaping(t *testing.T) {
	f := newFixture(t)
	f.open(1)
	f.open(2)
	_, made := f.do(1, 1, mknod("a"))
	renew := func(session uint64, seen uint64, held ...posix.Ino) {
		require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.RenewSession, Session: session, Vector: ask.Vector{{Count: seen}}, Held: held}).Status)
	}
	stale := f.count()
	_, _ = f.do(1, 2, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "a"})
	require.Equal(t, posix.OK, f.code(getAttr(made.Attr.Ino)))
	renew(1, f.count())
	renew(2, stale, made.Attr.Ino)
	renew(2, stale)
	require.Equal(t, posix.OK, f.code(getAttr(made.Attr.Ino)), "2 had not seen the unlink: it may have opened it since")
	renew(2, f.count(), made.Attr.Ino)
	require.Equal(t, posix.OK, f.code(getAttr(made.Attr.Ino)), "2 holds it")
	f.restart()
	require.Equal(t, posix.OK, f.code(getAttr(made.Attr.Ino)))
	renew(2, f.count())
	require.Equal(t, posix.ESTALE, f.code(getAttr(made.Attr.Ino)))
}

// If one delivery cannot reap all inodes, the replica continues by itself.
func TestReapingGoesOn(t *testing.T) {
	f := newFixture(t)
	f.open(1)
	seq := uint64(0)
	for range maxReap + 10 {
		seq++
		_, made := f.do(1, seq, mknod("a"))
		require.Equal(t, posix.OK, made.Code)
		seq++
		_, _ = f.do(1, seq, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "a"})
	}
	require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.CloseSession, Session: 1}).Status)
	require.Len(t, f.machine.Orphans(0, maxReap), 10)
	require.NotZero(t, f.Wake())
	f.step()
	require.Empty(t, f.machine.Orphans(0, maxReap))
}

func TestAClientOfAnotherClusterIsRefused(t *testing.T) {
	f := newFixture(t)
	f.cfg.Cluster = []byte("this one")
	require.Equal(t, ask.Refused, f.one(ask.Request{Kind: ask.OpenSession, Session: 3, Command: []byte("the one before")}).Status)
	require.Equal(t, ask.Answered, f.one(ask.Request{Kind: ask.OpenSession, Session: 3, Command: []byte("this one")}).Status)
	f.cfg.Cluster = nil
	require.Equal(t, ask.Unseen, f.one(ask.Request{Kind: ask.OpenSession, Session: 4, Vector: ask.Vector{{Count: 99}}}).Status, "it has seen more than there is")
}

// A fresh query that arrives during a barrier does not wait for another event.
func TestAFreshQueryBehindABarrier(t *testing.T) {
	f := newFixture(t)
	q := lookup(posix.Root, "a")
	q.Fresh = true
	f.hold = true
	f.step(q)
	f.step(q)
	second := f.token
	f.hold = false
	require.NotContains(t, f.step(), second)
	require.NotZero(t, f.Wake())
	require.LessOrEqual(t, f.Wake(), f.mono+time.Second/10)
	require.Contains(t, f.step(), second)
}

// The queries behind a barrier count once against the bound.
func TestFreshQueriesAreNotRefusedEarly(t *testing.T) {
	f := newFixture(t) // it has room for three
	q := lookup(posix.Root, "a")
	q.Fresh = true
	f.hold = true
	f.step(q, q)
	require.Empty(t, f.step(q), "the third")
}
