package lease

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Apply applies an own update to the cache. One partition has executed the update alone, once, at a place of
// its order, with this result.
func Apply(c *Cache, partition uint16, place ask.Seen, cmd *meta.Command, result *meta.Result) {
	if result.Code != posix.OK {
		c.Executed(place, false) // a failed update changes nothing
		return
	}
	at := Name{cmd.Ino, cmd.Name}
	switch cmd.Op {
	case meta.OpMknod:
		c.Executed(place, cmd.Flags&meta.Exclusive != 0 || !cmd.Mode.IsRegular(), at)
		c.Learn(at, Present, place)
		if made := &result.Attr; cmd.Mode.IsDir() && made.Nlink > 0 && made.Ino.Partition() == partition {
			c.List(made.Ino, nil, place)
		}
	case meta.OpUnlink, meta.OpRmdir:
		c.Executed(place, true, at)
		c.Learn(at, Absent, place)
	case meta.OpRename:
		c.Executed(place, false, at, Name{cmd.NewParent, cmd.NewName})
	case meta.OpLink:
		c.Executed(place, false, Name{cmd.NewParent, cmd.NewName})
	case meta.OpWrite, meta.OpSetAttr, meta.OpFallocate, meta.OpSetXattr, meta.OpRemoveXattr, meta.OpLock:
		c.Executed(place, false)
	}
}
