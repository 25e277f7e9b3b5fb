package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// objects are names and inodes that commands change. The updates for one of them go one after the other, the
// oldest first: at the same time, all but one would be refused, and newer ones could come first.
type objects map[object]bool

// object is a name in a directory, or an inode.
type object struct {
	ino  posix.Ino
	name string
}

// of yields the objects of a command of several partitions.
func (o objects) of(m *meta.Command) [4]object {
	return [4]object{{m.Ino, m.Name}, {m.NewParent, m.NewName}, {m.Child, ""}, {m.NewChild, ""}}
}

func (o objects) add(m *meta.Command) {
	for _, x := range o.of(m) {
		if x.ino != 0 {
			o[x] = true
		}
	}
}

func (o objects) has(m *meta.Command) bool {
	all := o.of(m)
	return slices.ContainsFunc(all[:], func(x object) bool { return o[x] })
}
