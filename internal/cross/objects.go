package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// objects are the names and inodes of the updates that stand before others at the asked replica. The updates
// of one client for an object go one after the other, the oldest first: at the same time, all but one would
// be refused. An update that was aborted before stands before the updates of all clients: newer ones could
// always come first while it pauses. No other update of a client stands before those of another client: it
// may be refused for lack of permission, or wait for ever.
type objects struct {
	aborted map[object]bool
	own     map[ownObject]bool
}

type ownObject struct {
	client string
	object
}

func newObjects() objects { return objects{map[object]bool{}, map[ownObject]bool{}} }

// object is a name in a directory, or an inode.
type object struct {
	ino  posix.Ino
	name string
}

// objectsOf returns the objects of a command of several partitions; some may have no inode.
func objectsOf(m *meta.Command) [4]object {
	return [4]object{{m.Ino, m.Name}, {m.NewParent, m.NewName}, {m.Child, ""}, {m.NewChild, ""}}
}

// add adds the objects of an update, which stands before later ones. known means that its session is open.
func (o objects) add(r *request, known bool) {
	if len(r.tokens) == 0 {
		return
	}
	for _, x := range objectsOf(&r.command) {
		if x.ino == 0 {
			continue
		}
		o.own[ownObject{r.name.Client, x}] = true
		if known && r.age != (Age{}) && r.silent == 0 {
			o.aborted[x] = true
		}
	}
}

// stand reports whether an update for the same objects stands before an update.
func (o objects) stand(before *request) bool {
	all := objectsOf(&before.command)
	return slices.ContainsFunc(all[:], func(x object) bool {
		return o.aborted[x] || o.own[ownObject{before.name.Client, x}]
	})
}
