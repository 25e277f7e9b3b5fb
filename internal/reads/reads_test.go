package reads

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// fakeCommand is an undecided command: its place, whether the state follows from its commit, and the inodes
// that it touches.
type fakeCommand struct {
	number, place uint64
	marked        bool
	touches       posix.Ino
}

// fakeState is the state of partition 1.
type fakeState struct {
	history   uint64
	count     uint64
	undecided []fakeCommand
	held      posix.Ino // a client holds it
	judged    int       // queries for which HiddenBy was called
}

func (s *fakeState) HiddenBy(q *Query) posix.Ino {
	s.judged++
	if q.Command.Ino == s.held {
		return s.held
	}
	return 0
}

func (s *fakeState) Own() ask.Seen {
	return ask.Seen{History: s.history, Count: s.count, Known: s.count}
}

func (s *fakeState) Awaits(reader ask.Seen, c *meta.Command) bool {
	return slices.ContainsFunc(s.undecided, func(x fakeCommand) bool {
		return x.touches == c.Ino && (x.marked || reader.IsOpen(x.place))
	})
}

func (s *fakeState) Barrier() (numbers []uint64) {
	for _, x := range s.undecided {
		numbers = append(numbers, x.number)
	}
	return numbers
}

func (s *fakeState) AwaitsAny(numbers []uint64, c *meta.Command) bool {
	return slices.ContainsFunc(s.undecided, func(x fakeCommand) bool {
		return x.touches == c.Ino && slices.Contains(numbers, x.number)
	})
}

// world is queries over a fake state, with the barriers that they propose.
type world struct {
	t     *testing.T
	state fakeState
	*Queries
	now      time.Duration
	barriers uint64
	proven   ask.Seen // of the last barrier
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, state: fakeState{count: 10}}
	w.Queries = New(1, &w.state)
	return w
}

// add adds a query of inode 5; its reader has seen this of partition 1.
func (w *world) add(token uint64, seen ask.Seen, fresh bool) (ready bool) {
	return w.Add(Query{
		Call:    turn.Call{Token: token},
		Request: ask.Request{Fresh: fresh, Vector: ask.Vector{{Count: 1 << 40}, seen}},
		Command: meta.Command{Op: meta.OpGetAttr, Ino: 5},
	}, w.now)
}

// raise reports whether a barrier is proposed.
func (w *world) raise() (proposed bool) {
	w.Raise(w.now, func(proven ask.Seen) multicast.MessageID {
		w.proven = proven
		w.barriers++
		proposed = true
		return multicast.MessageID{Sender: 1, Seq: w.barriers}
	})
	return proposed
}

// pass executes a barrier and returns the queries that are unseen.
func (w *world) pass(barrier uint64) []uint64 {
	return tokens(w.Pass(multicast.MessageID{Sender: 1, Seq: barrier}))
}

func (w *world) ready() []uint64 { return tokens(w.Ready()) }

func tokens(all []*Query) (list []uint64) {
	for _, q := range all {
		list = append(list, q.Call.Token)
	}
	return list
}

func TestAQueryThatNeedNotWait(t *testing.T) {
	w := newWorld(t)
	require.True(t, w.add(1, ask.Seen{}, false))
	require.True(t, w.add(2, ask.Seen{Count: 10}, false))
	require.True(t, w.Add(Query{}, 0), "a reader without a vector")
	w.state.undecided = []fakeCommand{{number: 1, place: 9, touches: 5}}
	require.True(t, w.add(3, ask.Seen{Count: 10}, false), "it has not seen the commit")
	w.state.undecided[0].touches = 6
	require.True(t, w.add(4, ask.Seen{}.Observe(9), false), "another object")
	require.Zero(t, w.Len())
	require.False(t, w.raise())
	require.Zero(t, w.Wake())
	require.Empty(t, w.ready())
}

func TestAQueryWaitsForACount(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.add(1, ask.Seen{Count: 12}, false))
	require.False(t, w.add(2, ask.Seen{Count: 11}, false))
	require.Equal(t, 2, w.Len())
	require.Empty(t, w.ready())
	w.state.count = 11
	require.Equal(t, []uint64{2}, w.ready())
	w.state.count = 13
	require.Equal(t, []uint64{1}, w.ready())
	require.Empty(t, w.ready(), "a query is answered once")
	require.Zero(t, w.Len())
}

func TestAQueryWaitsForAnOutcome(t *testing.T) {
	w := newWorld(t)
	w.state.undecided = []fakeCommand{{number: 1, place: 9, touches: 5}, {number: 2, place: 10, touches: 5}}
	require.False(t, w.add(1, ask.Seen{}.Observe(9), false))
	require.True(t, w.add(2, ask.Seen{}, false))
	w.state.undecided[1].marked = true
	require.False(t, w.add(3, ask.Seen{}, false), "the state follows from the commit")
	w.state.undecided = w.state.undecided[1:]
	require.Empty(t, w.ready())
	w.state.undecided = nil
	require.Equal(t, []uint64{1, 3}, w.ready(), "in the order in which they came")
	require.False(t, w.raise(), "a causal query needs no barrier")
}

// A fresh query waits for a barrier that is proposed after it came, and for the commands that are undecided
// there.
func TestAFreshQueryPassesABarrier(t *testing.T) {
	w := newWorld(t)
	require.False(t, w.add(1, ask.Seen{}, true))
	require.Empty(t, w.ready())
	require.True(t, w.raise())
	require.False(t, w.raise(), "one barrier at a time")
	require.Empty(t, w.ready())
	require.Empty(t, w.pass(77), "another barrier")
	require.Empty(t, w.ready())
	w.state.undecided = []fakeCommand{{number: 1, place: 9, touches: 5}, {number: 2, place: 10, touches: 6}}
	require.Empty(t, w.pass(1))
	require.Empty(t, w.ready(), "it may be committed elsewhere")
	w.state.undecided = append(w.state.undecided[1:], fakeCommand{number: 3, place: 12, touches: 5})
	require.Equal(t, []uint64{1}, w.ready(), "a later command is behind the barrier")
	require.False(t, w.raise())
	require.Empty(t, w.pass(1))
}

// A fresh query waits until no client holds the objects that it reads. Other queries do not wait for this.
func TestAFreshQueryWaitsForTheReturnOfADirectory(t *testing.T) {
	w := newWorld(t)
	w.state.held = 5
	require.True(t, w.add(1, ask.Seen{}, false))
	require.False(t, w.add(2, ask.Seen{}, true))
	require.True(t, w.raise())
	require.Empty(t, w.pass(1))
	require.Empty(t, w.ready())
	require.False(t, w.raise(), "it has passed its barrier")
	w.state.held = 6
	w.Returned([]posix.Ino{4})
	require.Empty(t, w.ready())
	w.Returned([]posix.Ino{5})
	require.Equal(t, []uint64{2}, w.ready())
	require.Zero(t, w.Len())
}

// hide adds fresh queries of objects that a client holds with directory 5: they wait for its return.
func (w *world) hide(tokens ...uint64) {
	w.state.held = 5
	for _, token := range tokens {
		require.False(w.t, w.add(token, ask.Seen{Count: 1}, true))
	}
	require.True(w.t, w.raise())
	w.pass(w.barriers)
	require.Empty(w.t, w.ready())
}

// An executed entry costs nothing for the queries that wait for directories which it does not return.
func TestHiddenQueriesAreJudgedWhenTheirDirectoryIsReturned(t *testing.T) {
	w := newWorld(t)
	w.hide(1, 2, 3)
	require.Equal(t, 3, w.Len())
	require.Equal(t, 3, w.state.judged)
	for range 100 {
		w.state.count++
		w.Returned([]posix.Ino{7, 8})
		require.Empty(t, w.ready())
	}
	require.Equal(t, 3, w.state.judged)
	w.Returned([]posix.Ino{5}) // and it is held again by the same entries
	require.Empty(t, w.ready())
	require.Equal(t, 6, w.state.judged)
	w.Withdraw([]uint64{2})
	require.Equal(t, 2, w.Len())
	w.state.held = 0
	w.Returned([]posix.Ino{5})
	require.Equal(t, []uint64{1, 3}, w.ready())
	require.Zero(t, w.Len())
}

// The directory of each hidden query is recalled once, and again after Reconsider.
func TestRecallsForHiddenQueries(t *testing.T) {
	w := newWorld(t)
	w.hide(1, 2, 3)
	var asked []uint64
	recall := func(q *Query) { asked = append(asked, q.Call.Token) }
	require.True(t, w.IsToRecall())
	w.Recall(recall)
	require.Equal(t, []uint64{1, 2, 3}, asked)
	require.False(t, w.IsToRecall())
	w.Recall(recall)
	require.Len(t, asked, 3)
	w.Withdraw([]uint64{3})
	w.Reconsider()
	require.Empty(t, w.ready(), "they are judged again")
	require.True(t, w.IsToRecall())
	w.Recall(recall)
	require.Equal(t, []uint64{1, 2}, asked[3:])
	w.Returned([]posix.Ino{5})
	require.Empty(t, w.ready(), "it is held anew")
	w.Recall(recall)
	require.Equal(t, []uint64{1, 2}, asked[5:])
	require.ElementsMatch(t, []uint64{1, 2}, w.TakeCalls())
	w.Reconsider()
	require.False(t, w.IsToRecall())
	require.Zero(t, w.Len())

	w.hide(4) // and then the permissions refuse it: it waits for nothing
	w.state.held = 0
	w.Reconsider()
	require.Equal(t, []uint64{4}, w.ready())
}

// The readers of hidden queries learn of a new history of the partition.
func TestHiddenQueriesOfAnOldHistory(t *testing.T) {
	w := newWorld(t)
	w.hide(1)
	w.state.history = 9
	require.Equal(t, []uint64{1}, w.ready())
}

// One barrier serves all queries that came before it. A query that comes later needs another one.
func TestQueriesThatComeWhileABarrierIsUnderWay(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	w.add(2, ask.Seen{}, true)
	require.True(t, w.raise())
	require.False(t, w.add(3, ask.Seen{}, true))
	require.False(t, w.raise())
	require.Empty(t, w.pass(1))
	require.Equal(t, []uint64{1, 2}, w.ready())
	require.True(t, w.raise())
	require.Empty(t, w.pass(1), "the barrier before")
	require.Empty(t, w.ready())
	require.Empty(t, w.pass(2))
	require.Equal(t, []uint64{3}, w.ready())
	require.EqualValues(t, 2, w.barriers)
}

// A count that was not reached for a while is checked by a barrier: a count above it is false.
func TestAFalseCount(t *testing.T) {
	w := newWorld(t)
	w.now = time.Second
	require.False(t, w.add(1, ask.Seen{Count: 12}, false))
	w.now += 10 * time.Millisecond
	require.False(t, w.add(2, ask.Seen{Count: 99}, false))
	require.False(t, w.raise())
	require.Equal(t, time.Second+ask.DoubtAfter, w.Wake())
	w.now = time.Second + ask.DoubtAfter - 1
	require.False(t, w.raise())
	w.now++
	require.True(t, w.raise(), "the first has waited for long")
	w.state.count = 12
	require.Empty(t, w.pass(1), "its count was true")
	require.Equal(t, []uint64{1}, w.ready())
	require.False(t, w.raise())
	require.Equal(t, time.Second+10*time.Millisecond+ask.DoubtAfter, w.Wake())
	w.now = w.Wake()
	require.True(t, w.raise())
	w.state.count = 98
	require.Equal(t, []uint64{2}, w.pass(2))
	require.Zero(t, w.Len(), "it is answered with Unseen")
	require.Empty(t, w.ready())
	require.False(t, w.raise())
	require.Zero(t, w.Wake())
}

// A fresh query with a false count is found at its own barrier.
func TestAFreshQueryWithAFalseCount(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{Count: 99}, true)
	w.add(2, ask.Seen{Count: 11}, true)
	require.True(t, w.raise())
	w.state.count = 11
	require.Equal(t, []uint64{1}, w.pass(1))
	require.Equal(t, []uint64{2}, w.ready())
}

func TestWithdrawnQueries(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{Count: 12}, false)
	w.add(2, ask.Seen{}, true)
	w.add(3, ask.Seen{}, true)
	require.True(t, w.raise())
	w.Withdraw([]uint64{1, 2, 99})
	require.Empty(t, w.pass(1))
	require.Equal(t, []uint64{3}, w.ready())
	require.Zero(t, w.Len())

	// All queries that wait for a barrier are withdrawn: the next query proposes another barrier, and the
	// first barrier passes no query.
	w.add(4, ask.Seen{}, true)
	require.True(t, w.raise())
	w.Withdraw([]uint64{4})
	w.add(5, ask.Seen{}, true)
	require.Empty(t, w.pass(2))
	require.True(t, w.raise())
	require.Empty(t, w.pass(2))
	require.Empty(t, w.ready(), "its barrier is the third")
	require.Empty(t, w.pass(3))
	require.Equal(t, []uint64{5}, w.ready())
}

// A query behind a barrier is one query.
func TestLenCountsEachQueryOnce(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	w.add(2, ask.Seen{}, true)
	require.Equal(t, 2, w.Len())
	require.True(t, w.raise())
	require.Equal(t, 2, w.Len())
}

// A fresh query that came while a barrier was under way needs a step when that has passed: nothing else may
// ask for one.
func TestAWakeIsAskedForBehindABarrier(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	require.True(t, w.raise())
	w.now++
	w.add(2, ask.Seen{}, true)
	require.False(t, w.raise())
	w.pass(1)
	require.Equal(t, []uint64{1}, w.ready())
	require.NotZero(t, w.Wake(), "the second query needs a barrier")
}

// The same for a count that is to be checked.
func TestADoubtIsNotForgottenBehindABarrier(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	require.True(t, w.raise())
	w.add(2, ask.Seen{Count: 99}, false)
	require.False(t, w.raise())
	w.pass(1)
	require.NotZero(t, w.Wake())
	require.LessOrEqual(t, w.Wake(), w.now+ask.DoubtAfter)
}
