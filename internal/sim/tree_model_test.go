package sim

import (
	"fmt"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/meta/metatest"
	"github.com/globalfs/globalfs/internal/posix"
)

// oneTree is the reference model as a tree without partitions, with the inode numbers of the run.
type oneTree struct {
	model    *metatest.Model
	counter  uint64
	inside   map[posix.Ino]posix.Ino // numbers of the model, by those of the run
	outside  map[posix.Ino]posix.Ino
	contents map[posix.Ino]string // of files, by numbers of the run
	parents  map[posix.Ino]bool   // directories, by numbers of the run
	at       map[posix.Ino]uint16 // where inodes are
	blocks   map[posix.BlockID][]byte
	pieces   map[posix.Ino][]posix.BlockID // the block of each byte of a file, by numbers of the run
	blockOf  map[posix.BlockID]posix.Ino   // the file that each block was written to
}

func newOneTree() *oneTree {
	t := &oneTree{
		blocks: map[posix.BlockID][]byte{}, pieces: map[posix.Ino][]posix.BlockID{}, blockOf: map[posix.BlockID]posix.Ino{},
		inside: map[posix.Ino]posix.Ino{}, outside: map[posix.Ino]posix.Ino{},
		contents: map[posix.Ino]string{}, parents: map[posix.Ino]bool{}, at: map[posix.Ino]uint16{},
	}
	t.model = metatest.NewModel(meta.Config{}, t.blocks)
	t.call(posix.Root, posix.Root)
	t.parents[posix.Root] = true
	for p := range uint16(2) {
		m := t.model.Apply(&meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: fmt.Sprintf("p%d", p+1), Mode: posix.TypeDir | 0o755}, 1)
		t.call(posix.MakeIno(p+1, 1), m.Attr.Ino)
		t.parents[posix.MakeIno(p+1, 1)] = true
	}
	return t
}

func (t *oneTree) call(outside, inside posix.Ino) {
	t.inside[outside], t.outside[inside] = inside, outside
}

// translate gives a command with the model's numbers.
func (t *oneTree) translate(c meta.Command) *meta.Command {
	for _, ino := range []*posix.Ino{&c.Ino, &c.NewParent} {
		if *ino != 0 {
			*ino = t.number(*ino)
		}
	}
	for _, k := range c.Blocks {
		t.blocks[k.ID] = []byte(blockText(k.ID))
	}
	return &c
}

// number returns the model's number, or one that the model does not have.
func (t *oneTree) number(ino posix.Ino) posix.Ino {
	if n, ok := t.inside[ino]; ok {
		return n
	}
	return posix.MakeIno(0, 1<<40)
}

// moves reports whether u is an operation that the model does not have: a move must have no visible effect.
func (u *change) moves() bool {
	return u.command.Op == meta.OpMove || u.command.Op == meta.OpPlace || u.command.Op == meta.OpCollected
}

// execute applies u to the model, and compares the results.
func (t *oneTree) execute(u *change) error {
	t.follow(u)
	if u.moves() {
		return nil
	}
	c := t.translate(u.command)
	c.Time = u.result.Attr.Mtime
	t.counter++
	want, got := t.model.Apply(c, t.counter), u.result
	if _, found := t.inside[got.Attr.Ino]; !found && c.Op == meta.OpMknod && want.Code == posix.OK {
		t.call(got.Attr.Ino, want.Attr.Ino)
		if want.Attr.Mode.IsDir() {
			t.parents[got.Attr.Ino] = true
		}
	}
	if problem := t.differs(u, &got, &want); problem != "" {
		return fmt.Errorf("%v: %s: the model says %v %+v %d", u, problem, want.Code, want.Attr, want.Number)
	}
	if c.Op == meta.OpWrite {
		t.contents[got.Attr.Ino] = splice(t.contents[got.Attr.Ino], int(got.Number), u.text())
		t.wrote(u)
		for _, k := range c.Blocks {
			t.blockOf[k.ID] = got.Attr.Ino
		}
	}
	return nil
}

// follow records the partition of the inode of u after u.
func (t *oneTree) follow(u *change) {
	switch ino := u.result.Attr.Ino; {
	case u.command.Op == meta.OpMove:
		t.at[ino] = u.command.Target
	case u.crossing != nil:
		t.at[ino] = uint16(u.result.Number)
	case u.command.Op == meta.OpMknod:
		t.at[ino] = uint16(u.result.Number)
	}
}

// differs names the first difference of a result from that of the model. For directories and times it
// compares only the parts that no concurrent command changes: a command of several partitions shows
// attributes as of its preparation.
func (t *oneTree) differs(u *change, got, want *meta.Result) string {
	a, b := got.Attr, want.Attr
	switch {
	case got.Code != want.Code:
		return "code"
	case t.number(a.Ino) != b.Ino:
		return "inode"
	case a.Mode.Type() != b.Mode.Type():
		return "type"
	case a.UID != b.UID:
		return "owner"
	case a.Mode.IsDir():
		return ""
	case a.Nlink != b.Nlink && u.command.Op != meta.OpWrite && u.command.Op != meta.OpSetAttr:
		return "links"
	case u.crossing != nil:
		return ""
	case a.Mode != b.Mode || a.Size != b.Size || u.command.Op == meta.OpWrite && got.Number != want.Number:
		return "mode, size or number"
	}
	return ""
}

// try gives the answer of the model to u. With OK the model has executed u.
func (t *oneTree) try(u *change) posix.Code {
	if u.moves() {
		return t.tryMove(u.command.Ino + u.command.Child) // one of them is 0
	}
	return t.model.Apply(t.translate(u.command), t.counter).Code
}

// tryMove refuses the move of an inode without a name.
func (t *oneTree) tryMove(ino posix.Ino) posix.Code {
	switch t.value(object{"links", ino, ""}) {
	case noLinks, notNamed:
		return posix.ENOENT
	}
	return posix.OK
}

func splice(text string, at int, data string) string {
	if len(text) < at {
		text += strings.Repeat("\x00", at-len(text))
	}
	if end := at + len(data); end < len(text) {
		return text[:at] + data + text[end:]
	}
	return text[:at] + data
}

// object is a part of the tree that commands change as a whole.
type object struct {
	what string // "name", "content" or "links"
	ino  posix.Ino
	name string
}

// version is the value of an object after an update.
type version struct {
	by    *change
	value string
}

// touches lists the objects that u changes, or takes to another partition, in the present tree.
func (t *oneTree) touches(u *change) []object {
	c := &u.command
	var all []object
	links := func(ino posix.Ino) {
		if ino != 0 {
			all = append(all, object{"links", ino, ""})
		}
	}
	entry := func(dir posix.Ino, name string) {
		if name != "" {
			all = append(all, object{"name", dir, name})
			links(t.child(dir, name))
		}
	}
	switch c.Op {
	case meta.OpMove:
		return t.whole(c.Child)
	case meta.OpWrite, meta.OpSetAttr:
		all = append(all, object{"content", c.Ino, ""})
	case meta.OpLink:
		links(c.Ino)
		entry(c.NewParent, c.NewName)
	case meta.OpMknod:
		entry(c.Ino, c.Name)
		all = append(all, object{"content", u.result.Attr.Ino, ""})
	case meta.OpUnlink, meta.OpRmdir:
		entry(c.Ino, c.Name)
	case meta.OpRename:
		entry(c.Ino, c.Name)
		entry(c.NewParent, c.NewName)
		if ino := u.result.Attr.Ino; u.crossing != nil && t.at[ino] != uint16(u.result.Number) {
			all = append(all, t.whole(ino)...)
		}
	}
	return all
}

// whole lists all objects of an inode.
func (t *oneTree) whole(ino posix.Ino) []object {
	all := []object{{"links", ino, ""}, {"content", ino, ""}}
	if t.parents[ino] {
		for _, name := range treeNames {
			all = append(all, object{"name", ino, name})
		}
	}
	return all
}

// child gives the inode with a name, by the number of the run; 0 if there is none.
func (t *oneTree) child(dir posix.Ino, name string) posix.Ino {
	m := t.model.Query(&meta.Command{Op: meta.OpLookup, Ino: t.number(dir), Name: name})
	if m.Code != posix.OK {
		return 0
	}
	return t.outside[m.Attr.Ino]
}

// value shows an object as text.
func (t *oneTree) value(o object) string {
	if o.what == "name" {
		return fmt.Sprint(t.child(o.ino, o.name))
	}
	a := t.model.Query(&meta.Command{Op: meta.OpGetAttr, Ino: t.number(o.ino)}).Attr
	if o.what == "links" {
		return linksOf(&a)
	}
	return contentOf(&a) + t.contents[o.ino]
}

// The results of linksOf for inodes without a name.
const (
	noLinks  = "links 0"
	notNamed = "named false"
)

// linksOf shows the number of names of an inode; a directory has one or none.
func linksOf(a *posix.Attr) string {
	if a.Mode.IsDir() {
		return fmt.Sprint("named ", a.Nlink > 0)
	}
	return fmt.Sprint("links ", a.Nlink)
}

// contentOf shows the rest of an inode that only its own partition changes.
func contentOf(a *posix.Attr) string {
	if a.Mode.IsDir() {
		return fmt.Sprintf("%o %d ", a.Mode, a.UID)
	}
	return fmt.Sprintf("%o %d %d %d ", a.Mode, a.UID, a.Size, a.Mtime)
}
