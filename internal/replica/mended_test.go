package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// A session ends while an update of it is blocked by a hold. The update is answered, and not abandoned again and again.
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

// A command that was refused for long keeps its place: while its parties are in reach it is not sent back to its client,
// where it would lose its age.
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

// A fresh query that comes while a barrier is under way is not left until something else happens.
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
