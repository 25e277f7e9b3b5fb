package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// objects are the names and inodes of earlier updates at the asked replica. A later update for one of them
// waits if one of these rules applies:
//
//  1. The updates of one client for an object are proposed one after the other, the oldest first. If they
//     were proposed together, all but one would be refused.
//  2. An update that was aborted before comes before the updates of all clients for its objects. Otherwise
//     newer ones could always come first while it pauses.
//
// No other update of a client delays those of another client: the first client may lack the permission for
// its update, or its update may wait for ever.
type objects struct {
	aborted map[object]bool    // of rule 2
	own     map[ownObject]bool // of rule 1
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

// add adds the objects of an update, for the updates after it. Rule 2 is for updates with an open session.
func (o objects) add(r *request, sessionOpen bool) {
	if len(r.tokens) == 0 {
		return
	}
	for _, x := range objectsOf(&r.command) {
		if x.ino == 0 {
			continue
		}
		o.own[ownObject{r.name.Client, x}] = true
		if sessionOpen && r.age != (Age{}) && r.unreachableSince == 0 {
			o.aborted[x] = true
		}
	}
}

// delay reports whether an update must wait for an earlier one of its objects.
func (o objects) delay(r *request) bool {
	all := objectsOf(&r.command)
	return slices.ContainsFunc(all[:], func(x object) bool {
		return o.aborted[x] || o.own[ownObject{r.name.Client, x}]
	})
}
