package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// loses cuts the messages from a partition to another one.
func (c *cluster) loses(from, to uint16) {
	c.cut = func(a, b *member) bool { return a.partition == from && b.partition == to }
}

// isolate cuts a partition off: no message passes, and the order between partitions delivers nothing there.
func (c *cluster) isolate(p uint16) {
	c.cut = func(a, b *member) bool { return a.partition != b.partition && (a.partition == p || b.partition == p) }
	for _, m := range c.of(p) {
		m.isHeld = true
	}
}

func (c *cluster) heal() {
	c.cut = nil
	for _, m := range c.members {
		m.isHeld, m.heldClass = false, ""
	}
}

// hold keeps the messages of some parties from being relayed at a partition.
func (c *cluster) hold(p uint16, parties ...multicast.GroupID) {
	for _, m := range c.of(p) {
		m.heldClass = multicast.ClassOf(parties)
	}
}

// all returns an update of all three partitions: a file of partition 2 that is in partition 0 gets a name in
// partition 1.
func all(session, seq uint64, ino posix.Ino, from, to string) ask.Request {
	return move(session, seq, ino, spot{0, from}, spot{1, to})
}

// newThree returns a cluster with open sessions and a file of partition 2 that is in partition 0.
func newThree(t *testing.T, replicas int) (c *cluster, ino posix.Ino) {
	c = newCluster(t, 1, replicas)
	c.open(7)
	c.open(8)
	c.open(9)
	ino = c.file(7, 1, spot{2, "a"})
	require.Equal(t, posix.OK, c.code(c.of(2)[0], move(7, 2, ino, spot{2, "a"}, spot{0, "a"})))
	for p := range uint16(partitions) {
		require.Equal(t, posix.ENOENT, c.code(c.of(p)[0], all(9, 1, ino, "none", "none")), "all are in reach")
	}
	c.run(time.Second)
	c.isQuiet()
	return c, ino
}

// isAt checks in which partition a file is.
func (c *cluster) isAt(ino posix.Ino, want ...spot) {
	c.t.Helper()
	var found []spot
	for s, i := range c.names() {
		if i == ino {
			found = append(found, s)
		}
	}
	require.ElementsMatch(c.t, want, found)
}

func TestACommandOfThreePartitions(t *testing.T) {
	c, ino := newThree(t, 3)
	require.Equal(t, posix.OK, c.code(c.of(0)[1], all(7, 1, ino, "a", "b")), "asked at a replica that does not lead")
	c.run(time.Second)
	c.isAt(ino, spot{1, "b"})
	c.isQuiet()
	c.isSound()
}

// The next command of a client sees the effect of its earlier ones, also where the outcome is late.
func TestTheNextCommandFollowsTheLast(t *testing.T) {
	c, ino := newThree(t, 1)
	c.loses(0, 1) // the outcome of the first
	first := c.ask(c.of(0)[0], all(7, 1, ino, "a", "b"))
	require.Equal(t, posix.OK, result(t, first).Code)
	next := move(7, 2, ino, spot{1, "b"}, spot{0, "c"})
	next.Vector = first.Vector
	token := c.send(c.of(0)[0], next)
	c.run(time.Second)
	c.heal()
	c.run(3 * time.Second)
	require.Equal(t, posix.OK, result(t, c.got[token]).Code)
	c.isAt(ino, spot{0, "c"})
	c.isQuiet()
}

// Old messages that arrive again after the end, in any order, change nothing.
func TestOldMessagesChangeNothing(t *testing.T) {
	c, ino := newThree(t, 2)
	c.keeps = true
	require.Equal(t, posix.OK, c.code(c.of(0)[0], all(7, 1, ino, "a", "b")))
	refusal := move(7, 2, ino, spot{0, "none"}, spot{1, "c"})
	require.Equal(t, posix.ENOENT, c.code(c.of(0)[0], refusal))
	c.run(2 * time.Second)
	c.isQuiet()
	before, entries := contents(c.of(1)[0].keys), [partitions]int{len(c.own[0]), len(c.own[1]), len(c.own[2])}
	old := c.sent
	c.keeps = false
	for range 3 {
		for _, i := range c.random.Perm(len(old)) {
			c.transmit(old[i])
		}
		c.run(tick)
	}
	c.run(5 * time.Second)
	c.isQuiet()
	require.Equal(t, before, contents(c.of(1)[0].keys))
	require.Equal(t, [partitions]int{len(c.own[0]), len(c.own[1]), len(c.own[2])}, entries, "nothing is ordered because of them")
	c.isAt(ino, spot{1, "b"})
}

// pair returns two commands that need the same name in partition 1: the older one of partitions 0 and 1, and
// the younger one of all three, which partition 1 coordinates.
func (c *cluster) pair(ino posix.Ino) (older, younger ask.Request) {
	mine := c.file(8, 1, spot{0, "mine"})
	return move(8, 2, mine, spot{0, "mine"}, spot{1, "b"}), all(9, 2, ino, "a", "b")
}

// age is the age that a message between partitions carries: the time of its first proposal, and the id of
// that proposal.
type age struct {
	time posix.Time
	id   multicast.MessageID
}

// proposals returns the ages of the messages for an update, in their order, and the ages that the messages
// carry.
func (c *cluster) proposals(dest []uint16, from int) (own []age, carried []age) {
	for i := from; i < len(c.between); i++ {
		d := &c.between[i]
		if len(d.Dest) != len(dest) {
			continue
		}
		e, err := order.DecodeEntry(d.Payload)
		require.NoError(c.t, err)
		r := varint.NewReader(e.Body)
		r.Uint16()
		a := age{time: posix.Time(r.Int()), id: multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}}
		own, carried = append(own, age{e.Time, d.ID}), append(carried, a)
	}
	return own, carried
}

// An older command waits for a younger one that holds an object it needs. It is not proposed again.
func TestTheOlderWaits(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		c, ino := newThree(t, 1)
		older, younger := c.pair(ino)
		before := len(c.between)
		c.hold(1, 0, 1)
		first := c.send(c.of(0)[0], older)
		c.run(tick)
		c.loses(2, 1) // a vote for the younger one
		second := c.send(c.of(1)[0], younger)
		c.run(tick)
		c.of(1)[0].heldClass = ""
		c.run(4 * tick)
		require.Len(t, c.of(1)[0].machine.Undecided(), 1)
		require.Len(t, c.of(1)[0].machine.Waiting(), 1, "the older one")
		if restarts {
			c.restart(c.of(1)[0])
			c.run(4 * tick)
			require.Len(t, c.of(1)[0].machine.Waiting(), 1)
		}
		require.False(t, c.isAnswered(first) || c.isAnswered(second))
		c.heal()
		c.run(6 * tick)
		c.run(time.Second)
		require.Len(t, c.between, before+2, "neither was proposed again")
		require.Equal(t, posix.EREMOTE, result(t, c.got[first]).Code, "the name is of another file now")
		if !restarts {
			require.Equal(t, posix.OK, result(t, c.got[second]).Code)
		}
		c.run(2 * time.Second)
		c.isAt(ino, spot{1, "b"})
		c.isQuiet()
		c.isSound()
	}
}

// A younger command that meets the hold of an older one is refused, and proposed again with the age of its
// first proposal.
func TestTheYoungerIsRefused(t *testing.T) {
	c, ino := newThree(t, 1)
	older, younger := c.pair(ino)
	before := len(c.between)
	c.loses(1, 0) // the vote for the older one
	first := c.send(c.of(0)[0], older)
	c.run(tick)
	second := c.send(c.of(2)[0], younger) // partition 2 does not know the older one
	c.run(time.Second)
	require.False(t, c.isAnswered(first) || c.isAnswered(second))
	require.Empty(t, c.of(1)[0].machine.Waiting())
	c.heal()
	c.run(3 * time.Second)
	require.Equal(t, posix.OK, result(t, c.got[first]).Code)
	require.Equal(t, posix.EREMOTE, result(t, c.got[second]).Code)
	own, carried := c.proposals(younger.Dest, before)
	require.Greater(t, len(own), 2)
	require.Less(t, len(own), 10, "it pauses before it is proposed again")
	require.Zero(t, carried[0])
	for _, a := range carried[1:] {
		require.Equal(t, own[0], a)
	}
	own, _ = c.proposals(older.Dest, before)
	require.Len(t, own, 1)
	c.isAt(ino, spot{0, "a"})
	c.isQuiet()
	c.isSound()
}

// Two opposite commands, and three cyclic ones, all end; each file is where its last move has put it.
func TestOppositeCommands(t *testing.T) {
	for seed := range uint64(20) {
		c := newCluster(t, seed, 2)
		c.delay, c.lag = 300*time.Millisecond, 0
		var inos [partitions]posix.Ino
		for p := range uint16(partitions) {
			c.open(10 + uint64(p))
			inos[p] = c.file(10+uint64(p), 1, spot{p, "x"})
		}
		c.run(time.Second)
		c.lag = 6
		// Each exchanges the name of its partition with the one of the next: a cycle of conflicts.
		var tokens []uint64
		for p := range uint16(partitions) {
			next := (p + 1) % partitions
			m := meta.Command{
				Op: meta.OpRename, Ino: root(p), Name: "x", NewParent: root(next), NewName: "x", Flags: meta.RenameExchange,
				Child: inos[p], NewChild: inos[next], Target: next,
			}
			for _, at := range []uint16{p, next} { // two sessions: opposite coordinators
				q := ask.Request{Kind: ask.Update, Session: 10 + uint64(p), Seq: 9, Done: 8, Dest: partiesOf(p, next), Command: m.Append(nil)}
				tokens = append(tokens, c.send(c.any(at), q))
			}
		}
		c.run(6 * time.Second)
		c.lag = 0
		c.run(6 * time.Second)
		done := 0
		for _, token := range tokens {
			require.True(t, c.isAnswered(token), "seed %d", seed)
			require.Equal(t, ask.Answered, c.got[token].Status)
			code := result(t, c.got[token]).Code
			require.Contains(t, []posix.Code{posix.OK, posix.EREMOTE}, code, "the name may be of another file by now")
			if code == posix.OK {
				done++
			}
		}
		require.NotZero(t, done)
		c.isQuiet()
		c.isSound()
	}
}

// Copies of one update through two replicas are executed once, and both get the answer.
func TestCopiesThroughTwoReplicas(t *testing.T) {
	for name, delivered := range map[string]bool{"before either is relayed": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			c, ino := newThree(t, 3)
			q := all(7, 1, ino, "a", "b")
			tokens := []uint64{c.send(c.of(0)[0], q)}
			if !delivered {
				c.tick()
			}
			tokens = append(tokens, c.send(c.of(0)[1], q), c.send(c.of(0)[2], q), c.send(c.of(0)[1], q))
			c.run(5 * time.Second)
			for _, token := range tokens {
				require.Equal(t, posix.OK, result(t, c.got[token]).Code)
			}
			c.isAt(ino, spot{1, "b"})
			c.isQuiet()
			c.isSound()
		})
	}
}

// A party is cut off: the names that a command holds on the healthy side are released within five seconds,
// and nothing is executed after its client got ETIMEDOUT.
func TestAPartyIsCutOff(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		c, ino := newThree(t, replicas)
		other := c.file(8, 1, spot{0, "other"})
		c.isolate(2)
		q := all(7, 1, ino, "a", "b")
		q.Patience = 20 * time.Second
		token := c.send(c.of(0)[0], q)
		c.run(tick)
		require.Equal(t, 1, c.of(0)[0].cross.Undecided())
		require.Equal(t, 1, c.of(1)[0].cross.Undecided())
		start := c.mono
		taken := c.send(c.of(1)[0], create(8, 1, 1, "b"))
		removed := c.send(c.of(0)[0], move(8, 2, root(0), spot{0, "a"}, spot{0, "z"}))
		moved := c.send(c.of(0)[0], move(9, 2, other, spot{0, "other"}, spot{1, "other"}))
		for !c.isAnswered(taken) || !c.isAnswered(removed) || !c.isAnswered(moved) {
			c.tick()
			require.Less(t, c.mono-start, 5*time.Second, "%v %v %v", c.got[taken], c.got[removed], c.got[moved])
		}
		for _, ended := range []uint64{taken, removed, moved} {
			require.Equal(t, posix.OK, result(t, c.got[ended]).Code)
		}
		c.run(30 * time.Second)
		require.Equal(t, ask.Overloaded, c.got[token].Status, "its parties are out of reach")
		c.heal()
		c.run(10 * time.Second)
		c.isAt(ino, spot{0, "z"})
		c.isQuiet()
		c.isSound()
	}
}

// The time of a call ends while a vote is missing: the call gets one final answer, wherever the message is
// relayed later.
func TestNothingIsExecutedAfterItsTime(t *testing.T) {
	for _, held := range []uint16{0, 1, 2} { // where the message is not relayed in time
		c, ino := newThree(t, 3)
		for _, m := range c.of(held) {
			m.isHeld = true
		}
		q := all(7, 1, ino, "a", "b")
		q.Patience = time.Second
		token := c.send(c.of(0)[0], q)
		c.run(4 * time.Second)
		require.Equal(t, posix.ETIMEDOUT, result(t, c.got[token]).Code)
		c.heal()
		c.run(5 * time.Second)
		c.isAt(ino, spot{0, "a"})
		c.isQuiet()
		for _, m := range c.of(0) {
			require.Equal(t, posix.ETIMEDOUT, c.code(m, q), "for ever")
		}
		c.isAt(ino, spot{0, "a"})
		c.isSound()
	}
}

// A party that waits for the outcome of a command that the coordinator has not relayed makes the coordinator
// abort it. The asked replica proposes it again.
func TestACommandThatTheCoordinatorHasNotRelayed(t *testing.T) {
	c, ino := newThree(t, 3)
	c.of(0)[0].isHeld, c.of(0)[1].isHeld, c.of(0)[2].isHeld = true, true, true
	token := c.send(c.of(0)[0], all(7, 1, ino, "a", "b"))
	c.run(tick)
	require.Equal(t, 1, c.of(1)[0].cross.Undecided())
	require.Equal(t, 1, c.of(2)[0].cross.Undecided())
	c.run(5 * time.Second)
	require.Zero(t, c.of(1)[0].cross.Undecided())
	require.Zero(t, c.of(2)[0].cross.Undecided())
	require.False(t, c.isAnswered(token), "it may still be executed by another message")
	require.Equal(t, posix.OK, c.code(c.of(1)[0], create(8, 1, 1, "b")), "what it held is free")
	c.heal()
	c.run(5 * time.Second)
	require.Equal(t, posix.EREMOTE, result(t, c.got[token]).Code, "the name is of another file now")
	c.isAt(ino, spot{0, "a"})
	c.isQuiet()
	c.isSound()
}

// The end of a call's time races with the commit: the answer and the effect agree.
func TestAbandonAndCommitRace(t *testing.T) {
	var timedOut, ok int
	for seed := range uint64(40) {
		c := newCluster(t, seed, 2)
		c.open(7)
		ino := c.file(7, 1, spot{0, "a"})
		c.code(c.of(0)[0], move(7, 2, 5, spot{0, "none"}, spot{1, "none"})) // both are in reach
		c.lag, c.delay = 8, 500*time.Millisecond
		q := move(7, 3, ino, spot{0, "a"}, spot{1, "b"})
		q.Patience = time.Duration(c.random.IntN(700)+1) * time.Millisecond
		token := c.send(c.of(0)[0], q)
		c.run(5 * time.Second)
		c.lag, c.delay = 0, 0
		c.run(5 * time.Second)
		c.isQuiet()
		switch result(t, c.got[token]).Code {
		case posix.OK:
			ok++
			c.isAt(ino, spot{1, "b"})
		case posix.ETIMEDOUT:
			timedOut++
			c.isAt(ino, spot{0, "a"})
		default:
			require.Fail(t, "another answer", "%+v", c.got[token])
		}
		c.isSound()
	}
	require.NotZero(t, ok)
	require.NotZero(t, timedOut)
}

// entries returns the number of entries of a partition's order.
func (c *cluster) entries(p uint16) int { return len(c.own[p]) }

// An update of several partitions for a session that is not known is answered, and not abandoned again and
// again, while a party is out of reach.
func TestAnUpdateOfAnUnknownSessionOutOfReach(t *testing.T) {
	c, ino := newThree(t, 1)
	c.isolate(2)
	c.run(5 * time.Second)
	first := all(9, 2, ino, "a", "b")
	c.send(c.of(0)[0], first)
	c.run(3 * time.Second) // partition 2 was asked, and does not answer
	q := all(99, 1, ino, "a", "b")
	q.Patience = time.Second
	before := c.entries(0)
	token := c.send(c.of(0)[0], q)
	c.run(5 * time.Second)
	require.True(t, c.isAnswered(token))
	require.Less(t, c.entries(0), before+10)
}

// A command that meets the hold of an older one with a cut-off coordinator is proposed again with pauses.
func TestARefusedCommandPauses(t *testing.T) {
	c, _, _ := newHeld(t, 3)
	mine := c.file(8, 1, spot{2, "mine"})
	c.isolate(0)
	c.run(tick)
	for _, at := range []uint16{1, 2} { // where the hold is, and where it is not known
		before := len(c.between)
		q := move(8, 2, mine, spot{2, "mine"}, spot{1, "b"})
		q.Seq, q.Done = uint64(at)+4, 1
		token := c.send(c.of(at)[0], q)
		c.run(6 * time.Second)
		require.False(t, c.isAnswered(token))
		require.Less(t, len(c.between), before+25)
	}
}

// A session ends while a command of it is undecided: the command is not executed.
func TestASessionEndsWhileItsCommandIsUndecided(t *testing.T) {
	c, ino, command := newHeld(t, 3)
	require.Equal(t, ask.Answered, c.ask(c.of(0)[1], ask.Request{Kind: ask.CloseSession, Session: 7}).Status)
	require.False(t, c.isAnswered(command))
	c.heal()
	c.run(3 * time.Second)
	require.Equal(t, ask.UnknownSession, c.got[command].Status)
	c.isAt(ino, spot{0, "a"})
	c.isQuiet()
	c.isSound()
}
