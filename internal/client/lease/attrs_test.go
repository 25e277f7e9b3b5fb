package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// describing returns a cache with a stream that has reached a place, and reports changes of attributes.
func describing(t *testing.T, place uint64) *Cache {
	t.Helper()
	c := New()
	c.Take(&ask.Changes{To: place, Mark: place, Lost: true, Attrs: true})
	return c
}

func attrOf(ino posix.Ino, size uint64) posix.Attr {
	return posix.Attr{Ino: ino, Mode: posix.TypeRegular | 0o644, Nlink: 1, Size: size}
}

func changedAttr(place uint64, own bool, ino posix.Ino) ask.Change {
	return ask.Change{Change: meta.Change{Kind: meta.ChangedAttr, Ino: ino}, Place: place, Own: own}
}

func attrChangesTo(c *Cache, to uint64, changes ...ask.Change) *ask.Changes {
	x := changesTo(c, to, changes...)
	x.Attrs = true
	return x
}

func learnAttr(c *Cache, a posix.Attr, place uint64) { c.LearnAttr(&a, at(place)) }

func requireSize(t *testing.T, c *Cache, ino posix.Ino, place, size uint64, why ...any) {
	t.Helper()
	a, ok := c.Attr(ino, at(place))
	require.True(t, ok, why...)
	require.Equal(t, size, a.Size, why...)
}

func requireNoAttr(t *testing.T, c *Cache, ino posix.Ino, place uint64, why ...any) {
	t.Helper()
	_, ok := c.Attr(ino, at(place))
	require.False(t, ok, why...)
}

// L1, L2 for attributes.
func TestAttributesAreUsedUpToTheStream(t *testing.T) {
	c := describing(t, 10)
	learnAttr(c, attrOf(5, 1), 10)
	requireSize(t, c, 5, 10, 1)
	requireNoAttr(t, c, 5, 11, "the client has seen more")
	requireNoAttr(t, c, 6, 10)
	foreign, all := c.Take(attrChangesTo(c, 12, changedAttr(11, false, 5), changedAttr(12, true, 7)))
	require.False(t, all)
	require.Equal(t, []ask.Change{changedAttr(11, false, 5)}, foreign)
	requireNoAttr(t, c, 5, 12)
	learnAttr(c, attrOf(5, 1), 10)
	requireNoAttr(t, c, 5, 12, "the answer is older than the change")
	learnAttr(c, attrOf(5, 2), 13)
	requireSize(t, c, 5, 12, 2, "a newer answer")
	learnAttr(c, attrOf(5, 1), 12)
	requireSize(t, c, 5, 12, 2, "the answer overtook this one")
	c.Take(attrChangesTo(c, 13, changedAttr(13, false, 5)))
	requireSize(t, c, 5, 13, 2, "it has the change already")
	c.Take(attrChangesTo(c, 14, ask.Change{Change: meta.Change{Kind: meta.ChangedPlace, Ino: 5}, Place: 14}))
	requireNoAttr(t, c, 5, 14, "it is in another partition")
	c.Cut()
	learnAttr(c, attrOf(8, 1), 14)
	requireNoAttr(t, c, 8, 14, "the stream is cut")
	c.Take(attrChangesTo(c, 14))
	requireSize(t, c, 8, 14, 1)

	gone := attrOf(9, 1)
	gone.Nlink = 0
	learnAttr(c, gone, 14)
	requireNoAttr(t, c, 9, 14, "the partition may remove it at any time")
}

// A replica of an older version reports no changes of attributes: none are kept, not even from before.
func TestAttributesNeedAStreamThatReportsThem(t *testing.T) {
	c := attached(t, 10)
	learnAttr(c, attrOf(5, 1), 10)
	requireNoAttr(t, c, 5, 10)
	_, all := c.Take(attrChangesTo(c, 12))
	require.True(t, all, "changes up to the place 12 were not reported")
	learnAttr(c, attrOf(5, 1), 11)
	requireNoAttr(t, c, 5, 12)
	learnAttr(c, attrOf(5, 1), 12)
	requireSize(t, c, 5, 12, 1)
	c.Take(changesTo(c, 13))
	requireNoAttr(t, c, 5, 13)
}

// L3, L4 for attributes.
func TestOwnUpdatesOfAttributes(t *testing.T) {
	c := describing(t, 10)
	learnAttr(c, attrOf(5, 1), 10)
	learnAttr(c, attrOf(6, 1), 10)
	Apply(c, 0, at(11), &meta.Command{Op: meta.OpWrite, Ino: 5}, &meta.Result{Attr: attrOf(5, 2)})
	requireSize(t, c, 5, 11, 2)
	requireSize(t, c, 6, 11, 1)
	Apply(c, 0, at(12), &meta.Command{Op: meta.OpSetXattr, Ino: 5}, &meta.Result{})
	requireNoAttr(t, c, 5, 12, "its time of change is not known")
	Apply(c, 0, at(13), &meta.Command{Op: meta.OpRename, Ino: dir, Name: "a", NewParent: dir, NewName: "b"}, &meta.Result{Attr: attrOf(6, 1)})
	require.EqualValues(t, 12, c.UpTo(), "an older replica does not name the inode that was replaced")
	c.Take(attrChangesTo(c, 13, changedAttr(11, true, 5), changedAttr(12, true, 5), changedAttr(13, true, 6)))
	requireNoAttr(t, c, 6, 13)

	learnAttr(c, attrOf(6, 1), 13)
	learnAttr(c, attrOf(8, 1), 13)
	rename := meta.Command{Op: meta.OpRename, Ino: dir, Name: "a", NewParent: 20, NewName: "b", Flags: meta.ReturnDir}
	replaced := attrOf(8, 1)
	replaced.Nlink = 0
	Apply(c, 0, at(14), &rename, &meta.Result{Attr: attrOf(6, 3), Dir: attrOf(dir, 4), Others: []posix.Attr{attrOf(20, 5), replaced}})
	require.EqualValues(t, 14, c.UpTo())
	requireSize(t, c, 6, 14, 3)
	requireSize(t, c, dir, 14, 4)
	requireSize(t, c, 20, 14, 5)
	requireNoAttr(t, c, 8, 14, "it was replaced")
	requireFound(t, c, Absent, named("a"), at(14))
	requireFound(t, c, Present, Name{20, "b"}, at(14))
	_, all := c.Take(attrChangesTo(c, 14, changedAttr(14, false, 6)))
	require.True(t, all, "the partition has lost the rename")
	requireNoAttr(t, c, 6, 14)
}

// With many inodes every change is urgent, and new ones do not end the request that waits.
func TestInterest(t *testing.T) {
	c := describing(t, 1)
	learnAttr(c, attrOf(5, 1), 1)
	require.True(t, c.Grown())
	w := c.Watching(time.Second)
	require.True(t, w.Interest.Has(5))
	require.False(t, w.Interest.Has(6))
	require.False(t, c.Grown())
	for i := range posix.Ino(3 * maxAttrs) {
		learnAttr(c, attrOf(i+1, 1), 1)
	}
	require.Len(t, c.attrs.known, maxAttrs)
	require.True(t, c.Grown())
	w = c.Watching(time.Second)
	for i := range posix.Ino(100) {
		require.True(t, w.Interest.Has(i))
	}
	learnAttr(c, attrOf(5*maxAttrs, 1), 1)
	require.False(t, c.Grown())
}
