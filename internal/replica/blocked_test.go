package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// newHeld returns a cluster in which an undecided command holds the name b of partition 1: its coordinator,
// partition 0, gets no votes.
func newHeld(t *testing.T, replicas int) (c *cluster, ino posix.Ino, command uint64) {
	c, ino = newThree(t, replicas)
	c.loses(1, 0)
	command = c.send(c.of(0)[0], all(7, 1, ino, "a", "b"))
	c.run(4 * tick)
	for _, m := range c.of(1) {
		require.Equal(t, 1, m.cross.Undecided())
	}
	return c, ino, command
}

// An update of one partition that meets a hold waits, and is executed after the outcome.
func TestAnUpdateThatMeetsAHoldWaits(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		c, ino, command := newHeld(t, replicas)
		asked := c.of(1)[replicas-1]
		before := len(c.own[1])
		waits := c.send(asked, create(8, 1, 1, "b"))
		repeated := c.send(asked, create(8, 1, 1, "b"))
		other := create(9, 2, 1, "other")
		require.Equal(t, posix.OK, c.code(asked, other))
		c.run(time.Second)
		require.False(t, c.isAnswered(waits))
		require.Len(t, asked.updates.blocked, 1)
		require.Less(t, len(c.own[1]), before+6, "it is not ordered again and again")
		c.heal()
		c.run(2 * time.Second)
		require.Equal(t, posix.OK, result(t, c.got[command]).Code)
		for _, token := range []uint64{waits, repeated} {
			require.Equal(t, posix.EEXIST, result(t, c.got[token]).Code)
		}
		c.isAt(ino, spot{1, "b"})
		c.isQuiet()
		c.isSound()
	}
}

// An update that is ordered before the hold, and executed behind it, waits too.
func TestAnOrderedUpdateMeetsAHold(t *testing.T) {
	c, ino := newThree(t, 3)
	c.loses(1, 0)
	other := c.send(c.of(1)[1], create(8, 1, 1, "first")) // in the same step as the relay
	command := c.send(c.of(0)[0], all(7, 1, ino, "a", "b"))
	for _, m := range c.of(1) {
		c.send(m, create(9, 2, 1, "b"))
	}
	tokens := []uint64{c.token, c.token - 1, c.token - 2}
	c.run(time.Second)
	c.heal()
	c.run(3 * time.Second)
	require.Equal(t, posix.OK, result(t, c.got[other]).Code)
	first := result(t, c.got[tokens[0]])
	require.Contains(t, []posix.Code{posix.OK, posix.EEXIST}, first.Code)
	for _, token := range tokens {
		require.Equal(t, first, result(t, c.got[token]))
	}
	if first.Code == posix.OK {
		require.NotEqual(t, posix.OK, result(t, c.got[command]).Code)
	}
	c.isQuiet()
	c.isSound()
}

// An update is not ordered if all its clients have given up.
func TestAWithdrawnUpdateIsNotExecuted(t *testing.T) {
	c, _, command := newHeld(t, 1)
	m := c.of(1)[0]
	withdrawn := c.send(m, create(8, 1, 1, "b"))
	stays := c.send(m, create(9, 2, 1, "b"))
	c.run(tick)
	require.Len(t, m.updates.blocked, 2)
	m.withdrawn = []uint64{withdrawn}
	c.run(tick)
	require.Len(t, m.updates.blocked, 1)
	c.run(2 * time.Second) // the coordinator aborts the command; its outcome arrives
	c.heal()
	c.run(time.Second)
	require.Equal(t, posix.OK, result(t, c.got[stays]).Code)
	require.False(t, c.isAnswered(withdrawn))
	require.Equal(t, posix.OK, c.code(m, move(9, 3, root(1), spot{1, "b"}, spot{1, "c"})))
	c.run(2 * time.Second)
	require.NotContains(t, c.names(), spot{1, "b"})
	require.True(t, c.isAnswered(command))
	c.run(2 * time.Second)
	c.isQuiet()
}

// The time of a blocked update ends it with ETIMEDOUT, for ever, at all replicas.
func TestPatienceEndsABlockedUpdate(t *testing.T) {
	c, ino, command := newHeld(t, 3)
	c.isolate(0)
	q := create(8, 1, 1, "b")
	q.Patience = 1500 * time.Millisecond
	start := c.mono
	tokens := []uint64{c.send(c.of(1)[1], q), c.send(c.of(1)[1], q), c.send(c.of(1)[0], q)}
	for !c.isAnswered(tokens[0]) {
		c.tick()
		require.LessOrEqual(t, c.mono-start, 1700*time.Millisecond)
	}
	require.GreaterOrEqual(t, c.mono-start, 1500*time.Millisecond)
	c.run(5 * tick)
	for _, token := range tokens {
		require.Equal(t, posix.ETIMEDOUT, result(t, c.got[token]).Code)
	}
	c.heal()
	c.run(5 * time.Second)
	require.True(t, c.isAnswered(command))
	for _, m := range c.of(1) {
		c.restart(m)
		require.Equal(t, posix.ETIMEDOUT, c.code(m, q), "for ever")
	}
	require.NotContains(t, c.names(), spot{0, "b"})
	for s, i := range c.names() {
		require.True(t, s != spot{1, "b"} || i == ino)
	}
	c.isQuiet()
	c.isSound()
}

// An update without a bound of its time waits as long as the hold stays.
func TestAnUpdateWithoutPatienceWaits(t *testing.T) {
	c, _, _ := newHeld(t, 1)
	c.isolate(0)
	token := c.send(c.of(1)[0], create(8, 1, 1, "b"))
	c.run(time.Minute)
	require.False(t, c.isAnswered(token))
	c.heal()
	c.run(10 * time.Second)
	require.True(t, c.isAnswered(token))
	c.isQuiet()
}

// A write to a file that an undecided command affects is executed after the outcome, in the file's partition
// of that time.
func TestAWriteMeetsAHold(t *testing.T) {
	c, ino, command := newHeld(t, 1)
	m := meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x"), Length: 1}
	q := ask.Request{Kind: ask.Update, Session: 8, Seq: 1, Command: m.Append(nil)}
	token := c.send(c.of(0)[0], q)
	c.run(tick)
	require.False(t, c.isAnswered(token))
	c.heal()
	c.run(2 * time.Second)
	require.Equal(t, posix.OK, result(t, c.got[command]).Code)
	require.Equal(t, posix.ESTALE, result(t, c.got[token]).Code, "it is in partition 1: its home knows")
}

// A session ends while an update of it is blocked by a hold. The update is answered, and not abandoned again
// and again.
func TestASessionEndsWhileItsUpdateIsBlocked(t *testing.T) {
	c, _, _ := newHeld(t, 1)
	c.isolate(0)
	q := create(8, 1, 1, "b")
	q.Patience = 2 * time.Second
	token := c.send(c.of(1)[0], q)
	c.run(time.Second)
	require.False(t, c.isAnswered(token))
	require.Equal(t, ask.Answered, c.ask(c.of(1)[0], ask.Request{Kind: ask.CloseSession, Session: 8}).Status)
	before := c.entries(1)
	c.run(5 * time.Second)
	require.Less(t, c.entries(1), before+10)
	require.True(t, c.isAnswered(token))
}
