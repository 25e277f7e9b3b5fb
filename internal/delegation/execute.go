package delegation

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Place is the place of the order at which a batch is executed.
type Place struct {
	Session uint64
	Horizon uint64 // of the session's blocks
	Counter uint64 // of the partition's updates
}

// Run executes a batch (W2). A batch that arrives before an earlier batch of its log has no effect.
func (t *Table) Run(m *meta.Machine, at Place, x *Batch) Done {
	if !t.Begin(at.Session, x.Log) {
		return Done{Stopped: true}
	}
	l := t.logs[at.Session]
	defer t.Save()
	for i := range x.Ops {
		number := x.First + uint64(i)
		if l.stopped || number > l.next {
			break
		}
		if number < l.next {
			continue // a repeated batch
		}
		r, covered := t.Execute(m, at, &x.Ops[i])
		if !covered || r.Code != posix.OK {
			l.stopped = true
			t.markLog(l)
			return Done{Next: l.next, Stopped: true, Code: r.Code}
		}
		l.next++
		t.markLog(l)
	}
	return Done{Next: l.next, Stopped: l.stopped}
}

// Execute executes an operation of a session with a log, and reports whether the session holds all objects
// that the operation touches: otherwise nothing was executed (W3). Client and replica run the same code (W4).
func (t *Table) Execute(m *meta.Machine, at Place, o *Op) (r meta.Result, covered bool) {
	if o.Return != 0 {
		t.Revoke(at.Session, o.Return)
		return meta.Result{}, true
	}
	if !t.CoversAll(at.Session, meta.Touched(m, &o.Command)) {
		return r, false
	}
	return t.ExecuteCovered(m, at, o)
}

// ExecuteCovered is like Execute, for a command of which the caller has found that the session holds all
// objects.
func (t *Table) ExecuteCovered(m *meta.Machine, at Place, o *Op) (r meta.Result, covered bool) {
	c := o.Command // not changed: it may be executed again
	if !t.mayExecute(m, at.Session, &c) {
		return r, false
	}
	c.Session, c.Horizon = at.Session, at.Horizon
	var number posix.Ino
	if c.Op == meta.OpMknod {
		number, c.Child = c.Child, 0
	}
	r = meta.ApplyNumbered(m, &c, at.Counter, number)
	if r.Code == posix.OK {
		t.executed(at.Session, &c, number, &r)
	}
	return r, true
}

// mayExecute reports whether a log may contain the command. A command that makes an inode must use a number
// that the session may give to the inode. The only grant that a command may change is that of a directory
// that it removes, which ends. So a log contains no renames of directories: a directory that is replaced
// would have a grant.
func (t *Table) mayExecute(m *meta.Machine, session uint64, c *meta.Command) bool {
	if !canDelegate(c.Op) {
		return false
	}
	switch c.Op {
	case meta.OpMknod:
		return t.mayUse(m, session, c.Ino, c.Child)
	case meta.OpRename:
		from, _ := meta.EntryOf(m, c.Ino, c.Name)
		to, _ := meta.EntryOf(m, c.NewParent, c.NewName)
		return !from.IsDir && !to.IsDir
	}
	return true
}

// mayUse reports whether a session may give a number to a new inode in a directory (W10).
func (t *Table) mayUse(m *meta.Machine, session uint64, dir, number posix.Ino) bool {
	first := number / SpanSize * SpanSize
	if g := t.spans[number/SpanSize]; g != nil {
		return g.dir == dir && number > g.spanOf(number).used && !meta.Has(m, number)
	}
	for _, spare := range t.logs[session].spare {
		if spare == first {
			return !meta.Has(m, number)
		}
	}
	return false
}

func (g *grant) spanOf(number posix.Ino) *span {
	for i := range g.spans {
		if s := &g.spans[i]; s.first == number/SpanSize*SpanSize {
			return s
		}
	}
	return &span{}
}

// executed updates the grants after a command.
func (t *Table) executed(session uint64, c *meta.Command, number posix.Ino, r *meta.Result) {
	switch c.Op {
	case meta.OpMknod:
		if r.Attr.Ino != number {
			return // it has opened a file
		}
		t.use(session, t.dirs[c.Ino], number)
		if r.Attr.Mode.IsDir() {
			t.Grant(session, r.Attr.Ino)
		}
	case meta.OpRmdir:
		t.Revoke(session, r.Attr.Ino)
	}
}

// use records that a number was given to an inode, and gives its span to the grant.
func (t *Table) use(session uint64, g *grant, number posix.Ino) {
	defer t.mark(g)
	if t.spans[number/SpanSize] == g {
		g.spanOf(number).used = number
		return
	}
	l, first := t.logs[session], number/SpanSize*SpanSize
	for i, spare := range l.spare {
		if spare == first {
			l.spare = append(l.spare[:i:i], l.spare[i+1:]...)
			break
		}
	}
	t.markLog(l)
	g.spans = append(g.spans, span{first, number})
	t.spans[number/SpanSize] = g
}

// NextNumber returns the number for the next inode that a session makes in a directory which it holds; false:
// the session needs more numbers.
func (t *Table) NextNumber(session uint64, dir posix.Ino) (posix.Ino, bool) {
	if g := t.dirs[dir]; g != nil && len(g.spans) > 0 {
		if s := &g.spans[len(g.spans)-1]; s.used+1 < s.first+SpanSize {
			return s.used + 1, true
		}
	}
	if l := t.logs[session]; l != nil && len(l.spare) > 0 {
		return l.spare[0], true
	}
	return 0, false
}

// Spare returns the number of spans of a session without a grant.
func (t *Table) Spare(session uint64) int {
	if l := t.logs[session]; l != nil {
		return len(l.spare)
	}
	return 0
}
