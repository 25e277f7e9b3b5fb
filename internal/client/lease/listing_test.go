package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A listing is used until a name of the directory changes, with the newest attributes, and only while the
// attributes of all its inodes in the partition are known.
func TestListing(t *testing.T) {
	c := describing(t, 10)
	away := meta.Entry{Name: "away", Cookie: 4, Attr: posix.Attr{Ino: 6, Mode: posix.TypeDir}, At: 3}
	list := func(place uint64) {
		for _, ino := range []posix.Ino{5, 7} {
			learnAttr(c, attrOf(ino, place), place)
		}
		c.List(dir, []meta.Entry{{Name: "a", Cookie: 3, Attr: attrOf(5, place)}, away, {Name: "b", Cookie: 5, Attr: attrOf(7, place)}}, 8, at(place))
	}
	requireListed := func(place, size uint64) {
		t.Helper()
		entries, last, ok := c.Listing(dir, 4, at(place))
		require.True(t, ok)
		require.EqualValues(t, 8, last)
		require.Equal(t, []meta.Entry{{Name: "a", Cookie: 3, Attr: attrOf(5, size)}, away, {Name: "b", Cookie: 5, Attr: attrOf(7, 10)}}, entries)
	}
	requireNone := func(place uint64, why string) {
		t.Helper()
		_, _, ok := c.Listing(dir, 4, at(place))
		require.False(t, ok, why)
	}
	requireNone(10, "it was not listed")
	list(10)
	requireListed(10, 10)
	_, _, ok := c.Listing(dir, 3, at(10))
	require.False(t, ok, "there may be more")
	requireNone(11, "the client has seen more")
	c.Take(attrChangesTo(c, 11, changedAttr(11, false, 5)))
	requireNone(11, "attributes are not known")
	learnAttr(c, attrOf(5, 20), 11)
	requireListed(11, 20)
	c.Take(attrChangesTo(c, 12, changed(10, false, "a")))
	requireListed(12, 20)
	c.Take(attrChangesTo(c, 13, changed(13, true, "c")))
	requireNone(13, "a name was added")
	list(12)
	requireNone(13, "the answer is older than the change")
	list(13)
	c.Take(attrChangesTo(c, 14, ask.Change{Change: meta.Change{Kind: meta.ChangedNames, Ino: dir}, Place: 14}))
	requireNone(14, "all names have changed")
}
