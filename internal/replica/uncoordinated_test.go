package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// prepared is the number of the first update after ready.
const prepared = 4

// ready gives the root of partition 0 a rule that sends all to partition 1, has numbers reserved there, and both
// partitions hear each other.
func ready(t *testing.T) (s *several, first posix.Ino) {
	s = newSeveral(t)
	place := meta.Command{Op: meta.OpPlace, Ino: posix.Root, Data: (&meta.Rule{Spread: []uint16{1}}).Append(nil)}
	require.Equal(t, posix.OK, result(t, s.ask(0, ask.Request{Kind: ask.Update, Session: 7, Seq: 1, Command: place.Append(nil)})).Code)
	numbers := meta.Command{Op: meta.OpReserve, Length: 8}
	r := result(t, s.ask(1, ask.Request{Kind: ask.Update, Session: 7, Seq: 2, Done: 1, Command: numbers.Append(nil)}))
	require.Equal(t, posix.OK, r.Code)
	s.ask(0, rename("none", 5, prepared-1))
	s.sleep(time.Second)
	return s, posix.Ino(r.Number)
}

// makeThere makes name in the root of partition 0, with its inode in partition 1.
func makeThere(name string, number posix.Ino, seq uint64) ask.Request {
	c := meta.Command{
		Op: meta.OpMknod, Ino: posix.Root, Name: name, Mode: 0o600, Flags: meta.Exclusive, Child: number, Target: 1,
	}
	c.Foresee(&posix.Attr{Mode: posix.TypeDir | 0o755})
	return ask.Request{Kind: ask.Update, Session: 7, Seq: seq, Done: prepared - 1, Dest: []uint16{0, 1}, Command: c.Append(nil)}
}

// isGone requires that partition 1 does not have an inode, nor anybody something to say of it.
func (s *several) isGone(ino posix.Ino) {
	s.t.Helper()
	require.Equal(s.t, posix.ESTALE, result(s.t, s.ask(1, getAttr(ino))).Code)
	s.isSound()
}

func (s *several) isSound() {
	s.t.Helper()
	var all []meta.Keys
	for _, f := range s.nodes {
		require.Empty(s.t, f.machine.Outbox(1))
		require.Empty(s.t, meta.Check(f.keys))
		require.Empty(s.t, dump(f.keys, coordinatedPrefix), "nobody votes")
		all = append(all, f.keys)
	}
	require.Empty(s.t, meta.CheckAll(all))
}

// proposed has an update ordered that some replica of partition 0 was given: maybe once more.
func (s *several) proposed(q ask.Request) {
	f := s.nodes[0]
	f.seq++
	m := multicast.Message{
		ID: multicast.MessageID{Sender: f.cfg.Self, Seq: f.seq}, Dest: []multicast.GroupID{0, 1},
		Payload: (&envelope{Kind: envelopeCommand, From: 0, Request: q.Append(nil)}).encode(),
	}
	s.order.list = append(s.order.list, multicast.Delivery{Message: m, Final: multicast.Timestamp(len(s.order.list) + 1)})
}

// answeredFirst has q answered before partition 1 learns of it.
func (s *several) answeredFirst(q ask.Request) ask.Reply {
	s.t.Helper()
	token := s.send(0, q)
	s.turn(0)
	require.Contains(s.t, s.got, token)
	return s.got[token]
}

func TestMakingElsewhereTakesNoVotes(t *testing.T) {
	s, n := ready(t)
	s.cut = true
	p := s.ask(0, makeThere("f", n, prepared))
	m := result(t, p)
	require.Equal(t, posix.OK, m.Code)
	require.Equal(t, n, m.Attr.Ino)
	require.Equal(t, s.nodes[0].relayed, p.Vector.Of(1).Cross, "who has the answer knows where the inode's partition must be")
	require.Equal(t, m.Attr, result(t, s.ask(1, getAttr(n))).Attr)
	require.Equal(t, s.nodes[0].relayed, s.nodes[0].decidedUpTo())
	s.isSound()
}

// The answer does not wait for the inode; who knows the name does.
func TestWhoKnowsTheNameFindsTheInode(t *testing.T) {
	s, n := ready(t)
	p := s.answeredFirst(makeThere("f", n, prepared))
	require.Equal(t, posix.OK, result(t, p).Code)
	q, owner := getAttr(n), meta.Command{Op: meta.OpSetAttr, Ino: n, Set: meta.SetUID, Attr: posix.Attr{UID: 9}}
	u := ask.Request{Kind: ask.Update, Session: 7, Seq: prepared, Command: owner.Append(nil)}
	require.Equal(t, posix.ESTALE, result(t, s.got[s.send(1, q)]).Code, "it is not made yet")
	s.restart(1)
	q.Vector, u.Vector = p.Vector, p.Vector
	query := s.send(1, q)
	require.NotContains(t, s.got, query)
	update := s.send(1, u)
	s.settle()
	require.Equal(t, n, result(t, s.got[query]).Attr.Ino)
	require.EqualValues(t, 9, result(t, s.got[update]).Attr.UID)
}

func TestWhatTheDirectoryRefusesIsUnmade(t *testing.T) {
	s, n := ready(t)
	require.Equal(t, posix.OK, result(t, s.ask(0, makeThere("f", n, prepared))).Code)
	s.turn(1)
	p := s.answeredFirst(makeThere("f", n+1, prepared+1))
	require.Equal(t, posix.EEXIST, result(t, p).Code)
	require.Len(t, s.nodes[0].machine.Outbox(9), 1)
	s.settle()
	s.isGone(n + 1)
	held := makeThere("f", n+2, prepared+2)
	held.Session = 8
	require.Equal(t, ask.UnknownSession, s.ask(0, held).Status)
	s.isGone(n + 2)
	done := makeThere("g", n+3, prepared+1)
	later := makeThere("h", n+4, prepared+3)
	later.Done = prepared + 2
	s.ask(0, later)
	require.Equal(t, ask.Refused, s.ask(0, done).Status)
	s.isGone(n + 3)
}

// I2: repeated messages change nothing, whether the first one succeeded or not, and whether it is remembered or not.
func TestMakingElsewhereIsExecutedOnce(t *testing.T) {
	for name, forget := range map[string]func(s *several){
		"remembered":    func(*several) {},
		"restarted":     func(s *several) { s.restart(0); s.restart(1) },
		"session ended": func(s *several) { s.ask(0, ask.Request{Kind: ask.CloseSession, Session: 7}) },
		"client done": func(s *several) {
			c := mknod("f")
			s.ask(0, ask.Request{Kind: ask.Update, Session: 7, Seq: prepared + 2, Done: prepared + 1, Command: c.Append(nil)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := ready(t)
			made, refused := makeThere("f", n, prepared), makeThere("f", n+1, prepared+1)
			s.proposed(made)
			s.proposed(refused)
			s.proposed(made)
			s.proposed(refused)
			s.settle()
			forget(s)
			s.sleep(time.Second)
			s.proposed(refused)
			s.proposed(made)
			s.settle()
			require.Equal(t, n, result(t, s.ask(1, getAttr(n))).Attr.Ino)
			s.isGone(n + 1)
			if name == "remembered" || name == "restarted" {
				require.Equal(t, n, result(t, s.ask(0, made)).Attr.Ino)
				require.Equal(t, posix.EEXIST, result(t, s.ask(0, refused)).Code)
			}
		})
	}
}

// Wherever the replicas stop, all comes to the same.
func TestRestartsWhileSomethingIsMade(t *testing.T) {
	for first := range 5 {
		for second := range 5 {
			s, n := ready(t)
			requests := []ask.Request{makeThere("f", n, prepared), makeThere("f", n+1, prepared+1)}
			for _, q := range requests {
				s.send(0, q)
			}
			for range first {
				s.turn(0)
			}
			for range second {
				s.turn(1)
			}
			s.restart(0)
			s.restart(1)
			s.sleep(2 * leaveToLeader)
			require.Equal(t, n, result(t, s.ask(0, requests[0])).Attr.Ino)
			require.Equal(t, posix.EEXIST, result(t, s.ask(0, requests[1])).Code)
			require.Equal(t, n, result(t, s.ask(1, getAttr(n))).Attr.Ino)
			s.isGone(n + 1)
		}
	}
}
