package metatest

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A client first sends a command to the partition of the command's directory or inode. If the command
// concerns inodes of other partitions, the client finds these partitions, and sends the command to all of
// them.

// pair records that an inode of the model and an inode of the partitions are the same.
func (c *cluster) pair(known, real posix.Ino) { c.real[known], c.known[real] = real, known }

// realOf returns the number in the partitions of an inode of the model. For an inode that the model does not
// have, it returns an unused number.
func (c *cluster) realOf(known posix.Ino) posix.Ino {
	if known == 0 {
		return 0
	}
	if real, ok := c.real[known]; ok {
		return real
	}
	return posix.MakeIno(known.Partition()%partitionCount, 1<<40)
}

// translated returns u with the inode numbers of the partitions.
func (c *cluster) translated(u *meta.Command) meta.Command {
	t := *u
	t.Ino, t.NewParent, t.Child = c.realOf(u.Ino), c.realOf(u.NewParent), c.realOf(u.Child)
	return t
}

// locate returns the partition of an inode. found is false if no partition has the inode.
func (c *cluster) locate(ino posix.Ino) (at uint16, found bool) {
	home := ino.Partition()
	r := c.askAt(home, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	if r.Code != posix.EREMOTE {
		return home, r.Code == posix.OK
	}
	at = uint16(r.Number)
	r = c.askAt(at, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	return at, r.Code == posix.OK
}

// askAt asks one replica of a partition. A query about an inode that is not made yet waits until the inode is
// made.
func (c *cluster) askAt(at uint16, q *meta.Command) meta.Result {
	m := c.partitions[at].replicas[c.pick(replicaCount)]
	if r := m.Query(q); r.Code != posix.EHELD {
		return r
	}
	if !m.Awaits(q) {
		c.failed = fmt.Errorf("%+v: it is to wait, but for nothing", q)
	}
	if err := c.awaited(at); err != nil {
		c.failed = err
	}
	return m.Query(q)
}

// query sends a query to the partition of its inode.
func (c *cluster) query(q meta.Command) meta.Result {
	at, _ := c.locate(q.Ino)
	return c.askAt(at, &q)
}

// Query answers a query for the whole tree, with the inode numbers of the model and all attributes.
func (c *cluster) Query(q *meta.Command) meta.Result {
	if q.Op == meta.OpStatFS {
		return c.statFS()
	}
	r := c.query(c.translated(q))
	for i := range r.Entries {
		c.complete(&r.Entries[i].Attr)
	}
	c.complete(&r.Attr)
	return r
}

// complete reads the attributes of an inode that is in another partition than the queried one.
func (c *cluster) complete(a *posix.Attr) {
	if a.Ino == 0 {
		return
	}
	if a.Nlink == 0 {
		kind := a.Mode.Type()
		if *a = c.query(meta.Command{Op: meta.OpGetAttr, Ino: a.Ino}).Attr; a.Mode.Type() != kind {
			*a = posix.Attr{} // no inode of the model
		}
	}
	a.Ino = c.known[a.Ino]
}

func (c *cluster) statFS() (sum meta.Result) {
	for _, p := range c.partitions {
		r := p.replicas[0].Query(&meta.Command{Op: meta.OpStatFS})
		sum.Number, sum.Number2 = sum.Number+r.Number, sum.Number2+r.Number2
	}
	return sum
}

// ask compares the answer to a random query. The effects of undecided commands must not be visible.
func (c *cluster) ask() error {
	switch c.pick(4) {
	case 0:
		return c.model.sameDir(c, c.dir(), uint64(1+c.pick(5)))
	case 1:
		return c.model.sameContent(c, c.ino(posix.TypeRegular), c.offset(), c.offset())
	}
	q := c.generator.query()
	if q.Op == meta.OpStatFS {
		return nil // a reaped inode may still be there
	}
	got, want := c.Query(q), c.model.Query(q)
	if got.Code != want.Code || got.Attr != want.Attr || string(got.Data) != string(want.Data) {
		return fmt.Errorf("%+v: %+v, want %+v", q, got, want)
	}
	return nil
}

// begin executes u in one partition if possible, and otherwise starts u in all partitions that it concerns.
func (c *cluster) begin(u *meta.Command) error {
	t := c.translated(u)
	if !c.exist(&t) {
		return c.stale(u)
	}
	at, _ := c.locate(answering(&t))
	c.putAgain(&t, at)
	r, err := c.partitions[at].apply(&t)
	switch {
	case err != nil:
		return err
	case !again(r.Code):
		c.disturb()
		if t.Op == meta.OpMknod && r.Code == posix.OK && r.Attr.Nlink > 0 && r.Attr.Ino.Partition() != at {
			c.elsewhere++
		}
		return c.answered(u, r, false)
	}
	parties := c.plan(&t, at)
	if len(parties) == 1 {
		c.again = append(c.again, u)
		return nil
	}
	c.ordered++
	x := &pending{number: c.ordered, asked: u, command: t, parties: parties, last: parties[c.pick(len(parties))]}
	c.undecided = append(c.undecided, x)
	for _, party := range parties {
		c.partitions[party].relayed = append(c.partitions[party].relayed, x)
	}
	return nil
}

// putAgain puts the blocks of a write again, for the partition that will execute the write.
func (c *cluster) putAgain(t *meta.Command, at uint16) {
	t.Blocks = slices.Clone(t.Blocks)
	for i := range t.Blocks {
		k := &t.Blocks[i]
		data := c.model.blocks[k.ID]
		k.ID = posix.MakeBlockID(at, writer, k.ID.Counter())
		c.model.blocks[k.ID] = data
	}
}

// answering returns the inode whose partition gets the command first.
func answering(t *meta.Command) posix.Ino {
	switch t.Op {
	case meta.OpLink:
		return t.NewParent
	case meta.OpMove:
		return t.Child
	}
	return t.Ino
}

// amid executes a command in one of the partitions that have decided x, while the other parties have not
// decided x.
func (c *cluster) amid(x *pending, decided []uint16) error {
	u := c.command()
	switch c.pick(4) {
	case 0:
		u = &meta.Command{Op: meta.OpUnlink, Time: c.time} // of the name that x has just changed
		c.collide(u, x)
	case 2:
		u = &meta.Command{Op: meta.OpFallocate, Time: c.time, Length: 2 * maxFile, Flags: meta.FallocatePunch} // its blocks
		if c.collide(u, x); x.command.Op == meta.OpMove {
			u.Ino = x.asked.Child
		}
	case 1:
		c.collide(u, x)
	}
	t := c.translated(u)
	at, found := c.locate(answering(&t))
	if q := (meta.Command{Op: meta.OpGetAttr, Ino: answering(&t)}); x.command.Op == meta.OpMove && x.command.Child == q.Ino &&
		c.partitions[x.command.Target].replicas[0].Query(&q).Code == posix.OK {
		at = x.command.Target // a client may have learned this from the target before the home has decided
	}
	if !found || !slices.Contains(decided, at) || !c.exist(&t) {
		return nil
	}
	c.putAgain(&t, at)
	r, err := c.partitions[at].apply(&t)
	if err != nil || again(r.Code) || t.Op == meta.OpMknod && r.Code == posix.OK && r.Attr.Nlink == 0 {
		return err
	}
	c.disturb()
	return c.answered(u, r, false)
}

func (c *cluster) disturb() {
	for _, x := range c.undecided {
		x.disturbed = true
	}
}

// exist reports whether some partition has each inode of t. A client does not send t if it does not find one
// of them.
func (c *cluster) exist(t *meta.Command) bool {
	for _, ino := range []posix.Ino{t.Ino, t.NewParent, t.Child} {
		if _, found := c.locate(ino); ino != 0 && !found {
			return false
		}
	}
	return true
}

// stale checks that the model also refuses a command on an inode that no partition has. The error of the
// model may be another one.
func (c *cluster) stale(u *meta.Command) error {
	if u.Op == meta.OpMove || u.Op == meta.OpPlace {
		return nil
	}
	c.counter++
	if r := c.model.Apply(u, c.counter); r.Code == posix.OK {
		return fmt.Errorf("%+v: an inode is nowhere, the model gives %+v", u, r)
	}
	return nil
}

// plan finds the inodes and partitions that t concerns, and records them in t. It returns the partitions that
// must take part. The first one, at, answers.
func (c *cluster) plan(t *meta.Command, at uint16) []uint16 {
	parties := []uint16{at}
	with := func(p uint16) {
		if !slices.Contains(parties, p) {
			parties = append(parties, p)
		}
	}
	where := func(ino posix.Ino) {
		if ino != 0 {
			p, _ := c.locate(ino)
			with(p)
		}
	}
	switch t.Op {
	case meta.OpLink:
		t.Child = t.Ino
		where(t.Child)
	case meta.OpUnlink, meta.OpRmdir:
		t.Child = c.child(t.Ino, t.Name)
		where(t.Child)
	case meta.OpRename:
		c.planRename(t, with, where)
	case meta.OpMove:
		with(t.Target)
		with(t.Child.Partition())
	case meta.OpPlace:
		with(0)
	}
	return parties
}

func (c *cluster) planRename(t *meta.Command, with func(uint16), where func(posix.Ino)) {
	to, _ := c.locate(t.NewParent)
	with(to)
	t.Child, t.NewChild, t.Target = c.child(t.Ino, t.Name), c.child(t.NewParent, t.NewName), c.target(t.NewParent, to, t.NewName)
	where(t.Child)
	where(t.NewChild)
	if t.Child == 0 {
		return
	}
	with(t.Target)
	with(t.Child.Partition())
	if t.Ino == t.NewParent {
		return
	}
	if c.isDirectory(t.Child) {
		t.Chain = c.chain(t.NewParent)
	}
	if t.Flags&meta.RenameExchange != 0 && c.isDirectory(t.NewChild) {
		t.Back = c.chain(t.Ino)
	}
	for _, dir := range slices.Concat(t.Chain, t.Back) {
		where(dir)
	}
}

// target returns the partition in which the rule of dir places a new inode with a name. at is the partition
// of dir.
func (c *cluster) target(dir posix.Ino, at uint16, name string) uint16 {
	rule, err := meta.DecodeRule(c.query(meta.Command{Op: meta.OpRule, Ino: dir}).Data)
	if err != nil {
		return at
	}
	return rule.Place(at, name)
}

// child returns the inode of a name, 0 if there is none.
func (c *cluster) child(dir posix.Ino, name string) posix.Ino {
	if name == "." || name == ".." {
		return 0
	}
	return c.query(meta.Command{Op: meta.OpLookup, Ino: dir, Name: name}).Attr.Ino
}

func (c *cluster) isDirectory(ino posix.Ino) bool {
	return ino != 0 && c.query(meta.Command{Op: meta.OpGetAttr, Ino: ino}).Attr.Mode.IsDir()
}

// chain returns dir, and each directory above it at which the path to the root enters another partition.
func (c *cluster) chain(dir posix.Ino) (chain []posix.Ino) {
	for dir != 0 && len(chain) < 100 {
		chain = append(chain, dir)
		dir = c.query(meta.Command{Op: meta.OpChain, Ino: dir}).Attr.Ino
	}
	return chain
}

// answered compares an answer with the model's. If disturbed, other commands were executed while u was
// undecided, so that its Attr may be older.
func (c *cluster) answered(u *meta.Command, r meta.Result, disturbed bool) error {
	switch u.Op {
	case meta.OpMove:
		return c.moved(u, r, disturbed)
	case meta.OpPlace:
		if _, want := c.model.dir(u.Ino); r.Code != want {
			return fmt.Errorf("%+v: %v, want %v", u, r.Code, want)
		}
		return nil
	}
	if u.Op == meta.OpMknod && r.Code == posix.OK && r.Attr.Nlink == 0 {
		var err error
		if r, err = c.open(u, r.Attr.Ino); err != nil {
			return err
		}
		if again(r.Code) {
			c.again = append(c.again, u)
			return nil
		}
	}
	c.counter++
	want := c.model.Apply(u, c.counter)
	if _, known := c.real[want.Attr.Ino]; u.Op == meta.OpMknod && want.Code == posix.OK && !known {
		if _, known := c.known[r.Attr.Ino]; known {
			return fmt.Errorf("%+v: inode %d is in use", u, r.Attr.Ino)
		}
		c.pair(want.Attr.Ino, r.Attr.Ino)
	}
	if r.Code != posix.OK {
		r.Attr = posix.Attr{}
	}
	return c.compare(u, r, want, disturbed)
}

func (c *cluster) compare(u *meta.Command, r, want meta.Result, disturbed bool) error {
	r.Attr.Ino = c.known[r.Attr.Ino]
	same := r.Attr == want.Attr
	if disturbed {
		same = r.Attr.Ino == want.Attr.Ino && r.Attr.Mode.Type() == want.Attr.Mode.Type()
	}
	if u.Op == meta.OpRename && r.Code == posix.EISDIR && want.Code == posix.ENOTEMPTY {
		return nil // both errors are right for a directory above: with several partitions this case is not checked
	}
	if r.Code != want.Code || !same || u.Op == meta.OpWrite && r.Number != want.Number {
		return fmt.Errorf("%+v: %+v, want %+v", u, r, want)
	}
	return nil
}

// open completes a mknod that has found an existing file in another partition.
func (c *cluster) open(u *meta.Command, ino posix.Ino) (meta.Result, error) {
	at, _ := c.locate(ino)
	p := c.partitions[at]
	if u.Flags&meta.Truncate != 0 {
		return p.apply(&meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetSize, Time: u.Time, Cred: u.Cred})
	}
	return p.replicas[0].Query(&meta.Command{Op: meta.OpGetAttr, Ino: ino}), nil
}

// moved checks the answer to a Move, which does not change the tree.
func (c *cluster) moved(u *meta.Command, r meta.Result, disturbed bool) error {
	n := c.model.nodes[u.Child]
	_, lost := c.model.lost[u.Child]
	var want meta.Result
	switch {
	case r.Code == posix.OK && !disturbed && !lost:
		want.Attr = c.model.stat(u.Child)
	case r.Code == posix.OK:
		return nil
	case u.Child.Counter() == 1:
		want.Code = posix.EBUSY
	case lost:
		want.Code = posix.ENOENT
	case n.Mode.IsRegular():
		want.Code = posix.EFBIG
	}
	return c.compare(u, r, want, false)
}
