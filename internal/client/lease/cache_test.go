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

// at is a state that a client has seen, or a replica has executed.
func at(count uint64) ask.Seen { return ask.Seen{Count: count, Known: count} }

func named(name string) Name { return Name{dir, name} }

// attached returns a cache with a stream that has reached a place.
func attached(t *testing.T, place uint64) *Cache {
	t.Helper()
	c := New()
	require.Equal(t, Unknown, c.Find(named("x"), ask.Seen{}))
	foreign, all := c.Take(&ask.Changes{To: place, Mark: place, Lost: true})
	require.False(t, all)
	require.Empty(t, foreign)
	return c
}

// told returns an answer with changes of names of the directory.
func told(c *Cache, to uint64, changes ...ask.Change) *ask.Changes {
	return &ask.Changes{From: c.Watching(0).From, To: to, Mark: to, List: changes}
}

func changed(place uint64, own bool, name string) ask.Change {
	return ask.Change{Change: changeOf(named(name)), Place: place, Own: own}
}

// L1, L2: a name is used while the stream has reached the state that the client has seen. An answer that
// comes after a change, and does not include it, is not kept.
func TestNamesAreUsedUpToTheStream(t *testing.T) {
	c := attached(t, 10)
	require.Equal(t, 1, c.Learn(named("x"), Absent, at(10)))
	require.Equal(t, Absent, c.Find(named("x"), at(10)))
	require.Equal(t, Unknown, c.Find(named("x"), at(11)))
	require.True(t, c.Lags(at(11)))
	require.Equal(t, Unknown, c.Find(named("x"), ask.Seen{Count: 9}.Observe(4)), "a command may have changed it that is undecided here")
	require.Equal(t, Unknown, c.Find(named("x"), ask.Seen{History: 1, Count: 3}))
	require.Equal(t, Unknown, c.Find(named("y"), at(10)))

	foreign, all := c.Take(told(c, 12, changed(12, false, "x"), ask.Change{Change: meta.Change{Kind: meta.ChangedName, Ino: 99, Name: "z"}, Place: 12}))
	require.False(t, all)
	require.Equal(t, []ask.Change{changed(12, false, "x")}, foreign, "of directories where the client has looked")
	require.Equal(t, Unknown, c.Find(named("x"), at(12)))
	c.Learn(named("x"), Absent, at(11))
	require.True(t, c.IsOutdated(named("x"), at(11)))
	require.Equal(t, Unknown, c.Find(named("x"), at(12)), "the answer is older than the change")
	c.Learn(named("x"), Present, at(12))
	require.Equal(t, Present, c.Find(named("x"), at(12)))
	c.Cut()
	require.Equal(t, Unknown, c.Find(named("x"), at(12)))
	c.Take(told(c, 12))
	require.Equal(t, Present, c.Find(named("x"), at(12)), "nothing was missed")
	c.Take(&ask.Changes{From: 12, To: 40, Lost: true})
	require.Equal(t, Unknown, c.Find(named("x"), at(12)), "anything may have changed")
}

// L3: the stream advances over own updates before they are reported; an update out of turn waits for those
// before it.
func TestOwnUpdatesAdvanceTheStream(t *testing.T) {
	c := attached(t, 10)
	c.List(dir, []string{"a"}, at(10))
	require.Equal(t, Absent, c.Find(named("b"), at(10)))
	require.Equal(t, Present, c.Find(named("a"), at(10)))
	c.Executed(at(12), true, named("c"))
	c.Learn(named("c"), Present, at(12))
	require.Equal(t, Unknown, c.Find(named("b"), at(12)), "what is at place 11 is not known")
	c.Executed(at(11), false)
	require.EqualValues(t, 12, c.UpTo())
	require.Equal(t, Present, c.Find(named("c"), at(12)))
	require.Equal(t, Absent, c.Find(named("b"), at(12)))
	foreign, _ := c.Take(told(c, 12, changed(12, true, "c")))
	require.Empty(t, foreign)
	require.Equal(t, Present, c.Find(named("c"), at(12)), "the answer was as of that change")
	c.Take(told(c, 13, changed(13, false, "b")))
	require.Equal(t, Unknown, c.Find(named("b"), at(13)), "it may be there now")
	require.Equal(t, Absent, c.Find(named("d"), at(13)))
	c.Take(told(c, 14, ask.Change{Change: meta.Change{Kind: meta.ChangedPlace, Ino: dir}, Place: 14}))
	require.Equal(t, Unknown, c.Find(named("d"), at(14)), "the directory is elsewhere")
}

// L4: if the stream does not report an own update, the partition has lost the update.
func TestLostUpdatesEmptyTheCache(t *testing.T) {
	c := attached(t, 10)
	c.Executed(at(11), true, named("a"))
	c.Learn(named("a"), Present, at(11))
	require.Equal(t, Present, c.Find(named("a"), at(11)))
	_, all := c.Take(told(c, 11, changed(11, false, "b")))
	require.True(t, all)
	require.Equal(t, Unknown, c.Find(named("a"), at(11)))
}

func TestAnswersOutOfTurnAreIgnored(t *testing.T) {
	c := attached(t, 10)
	old := told(c, 12, changed(11, false, "a"))
	c.Take(told(c, 14))
	c.Learn(named("a"), Absent, at(14))
	c.Take(old)
	require.Equal(t, Absent, c.Find(named("a"), at(14)))
	c.Take(told(c, 13))
	require.Equal(t, Unknown, c.Find(named("a"), at(14)), "the replica is behind: it knows no newer changes")
	c.Take(told(c, 14))
	require.Equal(t, Absent, c.Find(named("a"), at(14)))
}

func TestCacheIsBounded(t *testing.T) {
	c := attached(t, 1)
	for i := range posix.Ino(3 * maxDirectories) {
		names := []string{"a", "b"}
		c.List(i+1, names, at(1))
	}
	require.Len(t, c.dirs, maxDirectories)
	require.Equal(t, 2*maxDirectories, c.names)
	require.LessOrEqual(t, len(c.Watching(time.Second).Interest), ask.MaxInterest)
	require.False(t, c.Grown())
	for i := range uint64(3 * maxOutdated) {
		c.Take(told(c, i+2, changed(i+2, false, fmt.Sprint(i))))
	}
	require.LessOrEqual(t, len(c.outdated.names), maxOutdated)
	c.Learn(named("0"), Absent, at(1))
	require.Equal(t, Unknown, c.Find(named("0"), at(1)), "its change was forgotten, but not that there were changes")
	for i := range 2 * maxNames {
		c.Learn(named(fmt.Sprint(i)), Absent, at(3*maxOutdated+1))
	}
	require.LessOrEqual(t, c.names, maxNames)
}
