package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// bits are a set of updates, by their places in the total order.
type bits []uint64

func (b bits) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

func (b bits) add(other bits) {
	for i, w := range other {
		b[i] |= w
	}
}

func (b bits) clone() bits { return append(bits(nil), b...) }

// knowledge follows the knowledge of each client, and checks that no answer is older.
func (j *treeJudge) knowledge() error {
	empty := make(bits, len(j.order)/64+1)
	j.known = make([]bits, len(j.order))
	clients := make([]bits, len(j.run.clients))
	for i := range clients {
		clients[i] = empty.clone()
		if j.run.linear {
			clients[i] = clients[0]
		}
	}
	asked := map[int]bits{}
	for i, e := range j.run.history.events {
		own := clients[e.client]
		switch e.kind {
		case issues:
			if at, ok := j.place[e.change]; ok {
				j.known[at] = own.clone()
			}
		case asks:
			asked[i] = own.clone()
		case passes:
			clients[e.other].add(own)
		case learns:
			if at, ok := j.place[e.change]; ok && e.change != nil {
				own.set(at)
			}
			j.seen(&e, own)
		case reads:
			shown := asked[e.asked]
			if err := j.older(&e, shown, nil); err != nil {
				return err
			}
			j.seen(&e, shown)
			if err := j.older(&e, shown, shows(&e)); err != nil {
				return fmt.Errorf("of what the answer itself shows: %w", err)
			}
			own.add(shown)
		}
	}
	return nil
}

// shows lists the objects that an answer to a query shows.
func shows(e *happening) []object {
	c, ino := &e.command, e.command.Ino
	switch c.Op {
	case meta.OpLookup:
		all := []object{{"name", ino, c.Name}}
		if a := &e.result.Attr; e.result.Code == posix.OK && a.Nlink > 0 {
			all = append(all, object{"links", a.Ino, ""}, object{"content", a.Ino, ""})
		}
		return all
	case meta.OpReadDir:
		var all []object
		for _, name := range treeNames {
			all = append(all, object{"name", ino, name})
		}
		for i := range e.result.Entries {
			if a := &e.result.Entries[i].Attr; a.Nlink > 0 {
				all = append(all, object{"links", a.Ino, ""}, object{"content", a.Ino, ""})
			}
		}
		return all
	}
	return []object{{"links", ino, ""}, {"content", ino, ""}}
}

// seen adds the updates with effect at a partition up to the place of an answer, and the knowledge of their
// clients.
func (j *treeJudge) seen(e *happening, own bits) {
	for at, u := range j.order {
		if j.run.linear && u.madeIn(e.partition) {
			continue // only a client that has seen its name sees that it is there
		}
		if count, ok := u.effect(e.partition); ok && count <= e.count {
			own.set(at)
			own.add(j.known[at])
		}
	}
}

// older reports an update in known that an answer lacks; with objects, only an update that changes one of
// these.
func (j *treeJudge) older(e *happening, known bits, objects []object) error {
	for at, u := range j.order {
		count, ok := u.effect(e.partition)
		if !ok || count <= e.count || !known.has(at) {
			continue
		}
		about, touched := objects, j.touched[u]
		if u.crossing != nil && u.asked != e.partition && about == nil {
			about = shows(e) // only commands on the same objects wait for its outcome
		}
		if u.madeIn(e.partition) {
			made := u.observed.Attr.Ino // the name is elsewhere
			touched = []object{{"links", made, ""}, {"content", made, ""}}
			if about == nil {
				// The update's answer did not wait for that partition; only requests about the inode wait for
				// it.
				about = shows(e)
			}
		}
		if about == nil || slices.ContainsFunc(touched, func(o object) bool { return slices.Contains(about, o) }) {
			return fmt.Errorf("client %d asks partition %d [op %d of %d %q], which answers as of %d: it could know of %v",
				e.client, e.partition, e.command.Op, e.command.Ino, e.command.Name, e.count, u)
		}
	}
	return nil
}

// aboutOne reports whether u needs only the inode Ino at the partition that received u.
func (u *change) aboutOne() bool {
	switch u.command.Op {
	case meta.OpMknod, meta.OpUnlink, meta.OpRmdir, meta.OpWrite, meta.OpSetAttr:
		return u.dest == nil
	}
	return false
}

// reads checks each answer to a query, and the facts that updates show beside their own effect: the links of
// an inode, and its absence.
func (j *treeJudge) reads() error {
	for _, u := range j.order {
		if op := u.command.Op; op != meta.OpWrite && op != meta.OpSetAttr {
			continue
		}
		at := happening{partition: u.asked, count: u.count}
		if problem := j.same(&at, object{"links", u.command.Ino, ""}, linksOf(&u.result.Attr)); problem != "" {
			return fmt.Errorf("%v: %s", u, problem)
		}
	}
	for _, u := range j.run.history.changes {
		e := happening{partition: u.asked, clock: u.answered, command: u.command}
		if u.result.Code == posix.ESTALE && u.aboutOne() {
			if problem := j.readGone(&e); problem != "" {
				return fmt.Errorf("%v: %s", u, problem)
			}
		}
	}
	for _, e := range j.run.history.events {
		if e.kind != reads {
			continue
		}
		if problem := j.read(&e); problem != "" {
			return fmt.Errorf("client %d asks partition %d at %d [op %d of %d %q]: %v %+v: %s",
				e.client, e.partition, e.count, e.command.Op, e.command.Ino, e.command.Name, e.result.Code, e.result.Attr, problem)
		}
	}
	return nil
}

// read names the error of an answer.
func (j *treeJudge) read(e *happening) string {
	c, m := &e.command, &e.result
	switch m.Code {
	case posix.OK:
	case posix.EREMOTE:
		return ""
	case posix.ESTALE:
		return j.readGone(e)
	case posix.ENOENT:
		if j.value(e, object{"links", c.Ino, ""}) == notNamed {
			return ""
		}
		if c.Op == meta.OpLookup {
			return j.same(e, object{"name", c.Ino, c.Name}, "0")
		}
		return "the directory is there"
	default:
		return "this cannot be"
	}
	switch c.Op {
	case meta.OpGetAttr:
		return j.readAttr(e, &m.Attr)
	case meta.OpLookup:
		return j.readEntry(e, c.Name, &m.Attr)
	case meta.OpReadDir:
		return j.readDir(e)
	case meta.OpExtents:
		return j.same(e, object{"content", c.Ino, ""}, contentOf(&m.Attr)+textOf(m))
	}
	return ""
}

// readGone checks that an inode that was not found has no name.
func (j *treeJudge) readGone(e *happening) string {
	ino := e.command.Ino
	if e.partition != ino.Partition() {
		return ""
	}
	for _, v := range j.versions[object{"links", ino, ""}] {
		if (v.value == noLinks || v.value == notNamed) && v.by.first() < e.clock {
			return ""
		}
	}
	return "it has a name"
}

func (j *treeJudge) readAttr(e *happening, a *posix.Attr) string {
	if problem := j.same(e, object{"links", a.Ino, ""}, linksOf(a)); problem != "" {
		return problem
	}
	want := j.value(e, object{"content", a.Ino, ""})
	if got := contentOf(a); want != "" && !strings.HasPrefix(want, got) {
		return fmt.Sprintf("its content is %q, should be %q", got, want)
	}
	return ""
}

// readEntry checks an entry. For an inode in another partition an entry shows the number only.
func (j *treeJudge) readEntry(e *happening, name string, a *posix.Attr) string {
	if name == ".." {
		return ""
	}
	if isRegionName(e.command.Ino, name) {
		return ""
	}
	if problem := j.same(e, object{"name", e.command.Ino, name}, fmt.Sprint(a.Ino)); problem != "" || a.Nlink == 0 {
		return problem
	}
	return j.readAttr(e, a)
}

// isRegionName reports whether the root has a name from the start.
func isRegionName(dir posix.Ino, name string) bool {
	return dir == posix.Root && (name == "p1" || name == "p2")
}

func (j *treeJudge) readDir(e *happening) string {
	listed := map[string]bool{}
	for i := range e.result.Entries {
		entry := &e.result.Entries[i]
		if listed[entry.Name] {
			return fmt.Sprintf("%q stands twice", entry.Name)
		}
		listed[entry.Name] = true
		if problem := j.readEntry(e, entry.Name, &entry.Attr); problem != "" {
			return fmt.Sprintf("entry %q, inode %d: %s", entry.Name, entry.Attr.Ino, problem)
		}
	}
	for _, name := range treeNames {
		if !listed[name] {
			if problem := j.same(e, object{"name", e.command.Ino, name}, "0"); problem != "" {
				return fmt.Sprintf("no entry %q: %s", name, problem)
			}
		}
	}
	return ""
}

// value gives the value of an object at the place at which a partition answered: as the last update with
// effect there left it. Empty: the object was never there.
func (j *treeJudge) value(e *happening, o object) string {
	all := j.versions[o]
	for i := len(all) - 1; i >= 0; i-- {
		if count, ok := all[i].by.effect(e.partition); ok && count <= e.count {
			return all[i].value
		}
	}
	return ""
}

func (j *treeJudge) same(e *happening, o object, got string) string {
	want := j.value(e, o)
	if want == "" && (o.what == "name" && got == "0" || o.ino.Counter() == 1 && o.what != "name") || want == got {
		return ""
	}
	return fmt.Sprintf("its %s is %q, should be %q", o.what, got, want)
}

// textOf assembles the text of a file, holes included.
func textOf(m *meta.Result) string {
	text := make([]byte, m.Attr.Size)
	for _, e := range m.Extents {
		data := e.Data
		if data == nil {
			data = []byte(blockText(e.Block))[e.Skip:]
		}
		copy(text[e.Offset:], data[:e.Length])
	}
	return string(text)
}
