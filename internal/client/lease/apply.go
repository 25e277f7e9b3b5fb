package lease

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Apply applies an own update to the cache. One partition has executed the update alone, at a place of its
// order, with this result. If the result does not name all inodes that the update may have changed, as that
// of an older replica, Apply does nothing, and the cache waits for the stream.
func Apply(c *Cache, partition uint16, place ask.Seen, cmd *meta.Command, result *meta.Result) {
	switch result.Code {
	case posix.OK:
	case posix.ESTALE, posix.ENOLCK: // perhaps a replica has refused the update: then another command has this place
		return
	default:
		c.Executed(place, Effects{}) // a failed update changes nothing
		return
	}
	effects, known := effectsOf(cmd, result)
	if !known {
		return
	}
	c.Executed(place, effects)
	for _, a := range append([]posix.Attr{result.Attr, result.Dir}, result.Others...) {
		c.learnAttr(&a, place, true)
	}
	at, made := Name{cmd.Ino, cmd.Name}, &result.Attr
	switch cmd.Op {
	case meta.OpMknod:
		c.Learn(at, made.Ino, place)
		if cmd.Mode.IsDir() && made.Nlink > 0 && made.Ino.Partition() == partition {
			c.List(made.Ino, nil, 0, place)
		}
	case meta.OpUnlink, meta.OpRmdir:
		c.Learn(at, 0, place)
	case meta.OpLink:
		c.Learn(Name{cmd.NewParent, cmd.NewName}, made.Ino, place)
	case meta.OpRename:
		if cmd.Flags&meta.RenameExchange == 0 && result.Dir.Ino != 0 {
			c.Learn(at, 0, place)
			c.Learn(Name{cmd.NewParent, cmd.NewName}, made.Ino, place)
		}
	}
}

// effectsOf returns the effects of an own update. known means that they are complete.
func effectsOf(cmd *meta.Command, result *meta.Result) (e Effects, known bool) {
	switch cmd.Op {
	case meta.OpMknod:
		e.Names, e.Attrs = []Name{{cmd.Ino, cmd.Name}}, []posix.Ino{cmd.Ino, result.Attr.Ino}
		e.Certain = cmd.Flags&meta.Exclusive != 0 || !cmd.Mode.IsRegular()
	case meta.OpUnlink, meta.OpRmdir:
		e.Names, e.Attrs, e.Certain = []Name{{cmd.Ino, cmd.Name}}, []posix.Ino{cmd.Ino, result.Attr.Ino}, true
	case meta.OpRename:
		e.Names = []Name{{cmd.Ino, cmd.Name}, {cmd.NewParent, cmd.NewName}}
		e.Attrs = []posix.Ino{cmd.Ino, cmd.NewParent, result.Attr.Ino}
		for i := range result.Others {
			e.Attrs = append(e.Attrs, result.Others[i].Ino)
		}
		e.Certain = true
		return e, result.Dir.Ino != 0
	case meta.OpLink:
		e.Names, e.Attrs, e.Certain = []Name{{cmd.NewParent, cmd.NewName}}, []posix.Ino{cmd.NewParent, cmd.Ino}, true
	case meta.OpSetAttr, meta.OpSetXattr, meta.OpRemoveXattr:
		e.Attrs, e.Certain = []posix.Ino{cmd.Ino}, true
	case meta.OpWrite, meta.OpFallocate:
		e.Attrs = []posix.Ino{cmd.Ino}
	case meta.OpLock:
	default:
		return e, false
	}
	return e, true
}
