package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

const dir posix.Ino = 7

// at returns a state that a client has seen, or a replica has executed.
func at(count uint64) ask.Seen { return ask.Seen{Count: count, Known: count} }

func named(name string) Name { return Name{dir, name} }

func requireFound(t *testing.T, c *Cache, want Finding, at Name, seen ask.Seen, why ...any) {
	t.Helper()
	found, ino := c.Find(at, seen)
	require.Equal(t, want, found, why...)
	require.Equal(t, want == Present, ino != 0)
}

// attached returns a cache with a stream that has reached a place.
func attached(t *testing.T, place uint64) *Cache {
	t.Helper()
	c := New()
	requireFound(t, c, Unknown, named("x"), ask.Seen{})
	foreign, all := c.Take(&ask.Changes{To: place, Mark: place, Lost: true})
	require.False(t, all)
	require.Empty(t, foreign)
	return c
}

// changesTo returns an answer with changes of names of the directory.
func changesTo(c *Cache, to uint64, changes ...ask.Change) *ask.Changes {
	return &ask.Changes{From: c.Watching(0).From, To: to, Mark: to, List: changes}
}

func changed(place uint64, own bool, name string) ask.Change {
	return ask.Change{Change: meta.Change{Kind: meta.ChangedName, Ino: dir, Name: name}, Place: place, Own: own}
}

// L1, L2: a name is used while the stream has reached the state that the client has seen. An answer that
// comes after a change, and does not include it, is not kept.
func TestNamesAreUsedUpToTheStream(t *testing.T) {
	c := attached(t, 10)
	require.Equal(t, 1, c.Learn(named("x"), 0, at(10)))
	requireFound(t, c, Absent, named("x"), at(10))
	requireFound(t, c, Unknown, named("x"), at(11))
	require.True(t, c.Lags(at(11)))
	requireFound(t, c, Unknown, named("x"), ask.Seen{Count: 9}.Observe(4), "a command may have changed it that is undecided here")
	requireFound(t, c, Unknown, named("x"), ask.Seen{History: 1, Count: 3})
	requireFound(t, c, Unknown, named("y"), at(10))

	foreign, all := c.Take(changesTo(c, 12, changed(12, false, "x"), ask.Change{Change: meta.Change{Kind: meta.ChangedName, Ino: 99, Name: "z"}, Place: 12}))
	require.False(t, all)
	require.Len(t, foreign, 2)
	require.Equal(t, changed(12, false, "x"), foreign[0])
	requireFound(t, c, Unknown, named("x"), at(12))
	c.Learn(named("x"), 0, at(11))
	require.True(t, c.IsOutdated(named("x"), at(11)))
	requireFound(t, c, Unknown, named("x"), at(12), "the answer is older than the change")
	c.Learn(named("x"), 9, at(12))
	requireFound(t, c, Present, named("x"), at(12))
	c.Cut()
	requireFound(t, c, Unknown, named("x"), at(12))
	c.Take(changesTo(c, 12))
	requireFound(t, c, Present, named("x"), at(12), "nothing was missed")
	c.Take(&ask.Changes{From: 12, To: 40, Lost: true})
	requireFound(t, c, Unknown, named("x"), at(12), "anything may have changed")
}

// L3: the stream advances over own updates before they are reported; an update out of turn waits for those
// before it.
func TestOwnUpdatesAdvanceTheStream(t *testing.T) {
	c := attached(t, 10)
	c.List(dir, []meta.Entry{{Name: "a", Attr: posix.Attr{Ino: 9}}}, 0, at(10))
	requireFound(t, c, Absent, named("b"), at(10))
	requireFound(t, c, Present, named("a"), at(10))
	c.Executed(at(12), Effects{Names: []Name{named("c")}, Certain: true})
	c.Learn(named("c"), 9, at(12))
	requireFound(t, c, Unknown, named("b"), at(12), "what is at place 11 is not known")
	c.Executed(at(11), Effects{})
	require.EqualValues(t, 12, c.UpTo())
	requireFound(t, c, Present, named("c"), at(12))
	requireFound(t, c, Absent, named("b"), at(12))
	foreign, _ := c.Take(changesTo(c, 12, changed(12, true, "c")))
	require.Empty(t, foreign)
	requireFound(t, c, Present, named("c"), at(12), "the answer was as of that change")
	c.Take(changesTo(c, 13, changed(13, false, "b")))
	requireFound(t, c, Unknown, named("b"), at(13), "it may be there now")
	requireFound(t, c, Absent, named("d"), at(13))
	c.Take(changesTo(c, 14, ask.Change{Change: meta.Change{Kind: meta.ChangedPlace, Ino: dir}, Place: 14}))
	requireFound(t, c, Unknown, named("d"), at(14), "the directory is elsewhere")
}

// A replica may refuse an update before it is ordered. The place in its answer is that of another command.
func TestRefusedUpdatesHaveNoPlace(t *testing.T) {
	for code, upTo := range map[posix.Code]uint64{posix.ENOLCK: 10, posix.ESTALE: 10, posix.EEXIST: 11} {
		c := attached(t, 10)
		Apply(c, 0, at(11), &meta.Command{Op: meta.OpLock}, &meta.Result{Code: code})
		require.Equal(t, upTo, c.UpTo(), code)
	}
}

// L4: if the stream does not report an own update, the partition has lost the update.
func TestLostUpdatesEmptyTheCache(t *testing.T) {
	c := attached(t, 10)
	c.Executed(at(11), Effects{Names: []Name{named("a")}, Certain: true})
	c.Learn(named("a"), 9, at(11))
	requireFound(t, c, Present, named("a"), at(11))
	_, all := c.Take(changesTo(c, 11, changed(11, false, "b")))
	require.True(t, all)
	requireFound(t, c, Unknown, named("a"), at(11))
}

func TestAnswersOutOfTurnAreIgnored(t *testing.T) {
	c := attached(t, 10)
	old := changesTo(c, 12, changed(11, false, "a"))
	c.Take(changesTo(c, 14))
	c.Learn(named("a"), 0, at(14))
	c.Take(old)
	requireFound(t, c, Absent, named("a"), at(14))
	c.Take(changesTo(c, 13))
	requireFound(t, c, Unknown, named("a"), at(14), "the replica is behind: it knows no newer changes")
	c.Take(changesTo(c, 14))
	requireFound(t, c, Absent, named("a"), at(14))
}

func TestCacheIsBounded(t *testing.T) {
	c := attached(t, 1)
	for i := range posix.Ino(3 * maxDirectories) {
		names := []meta.Entry{{Name: "a", Attr: posix.Attr{Ino: 9}}, {Name: "b", Attr: posix.Attr{Ino: 9}}}
		c.List(i+1, names, 0, at(1))
	}
	require.Len(t, c.dirs, maxDirectories)
	require.Equal(t, 2*maxDirectories, c.names)
	require.LessOrEqual(t, len(c.Watching(time.Second).Interest), ask.MaxInterest)
	require.False(t, c.Grown())
	for i := range uint64(3 * maxOutdated) {
		c.Take(changesTo(c, i+2, changed(i+2, false, fmt.Sprint(i))))
	}
	require.LessOrEqual(t, len(c.outdated.names), maxOutdated)
	c.Learn(named("0"), 0, at(1))
	requireFound(t, c, Unknown, named("0"), at(1), "its change was forgotten, but not that there were changes")
	for i := range 2 * maxNames {
		c.Learn(named(fmt.Sprint(i)), 0, at(3*maxOutdated+1))
	}
	require.LessOrEqual(t, c.names, maxNames)
}
