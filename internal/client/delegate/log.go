package delegate

import (
	"bytes"
	"slices"

	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of a log and its copy.
const (
	maxOps     = 4096
	maxBytes   = 8 << 20
	maxBatch   = 512 << 10 // bytes of the operations in a batch
	opCost     = 64        // bytes of an operation beside its content
	maxInodes  = 1 << 16   // of the copy
	maxDirs    = delegation.MaxGrants * 7 / 8
	lowNumbers = 8 // spans
)

// Config of a Log.
type Config struct {
	Partition uint16
	Session   uint64
	Number    uint64    // of the log: above those of all earlier logs of the session
	Keys      meta.Keys // of the copy; empty
	// Record is called with each appended operation, its number and its outcome. Nil: it is not needed.
	Record func(number uint64, op *delegation.Op, r *meta.Result)
}

// Log is the log with the copy. It has one owner.
type Log struct {
	cfg     Config
	machine *meta.Machine
	table   *delegation.Table

	ops     []pending
	first   uint64 // number of the first of ops
	flights []int  // numbers of operations of the batches under way, which have the first of ops
	bytes   int    // of ops
	changes uint64 // executed in the copy
	asked   uint64 // requests for existing directories

	restored bool // the copy does not have the changes of ops

	unknown map[posix.Ino]bool // directories that were returned before the answer to their making came

	newest   map[posix.Ino]uint64 // the newest operation of ops that may have changed an inode
	released uint64
}

// pending is an operation that is not acknowledged.
type pending struct {
	delegation.Op
	size     int
	inos     []posix.Ino // that it may have changed
	withheld bool        // its block is not stored
}

// New makes an empty log.
func New(cfg Config) (*Log, error) {
	m, err := meta.New(cfg.Keys, meta.Config{Partition: cfg.Partition, Copy: true})
	if err != nil {
		return nil, err
	}
	t, err := delegation.Load(cfg.Keys)
	if err != nil {
		return nil, err
	}
	t.Begin(cfg.Session, cfg.Number)
	return &Log{cfg: cfg, machine: m, table: t, first: 1, unknown: map[posix.Ino]bool{}, newest: map[posix.Ino]uint64{}}, nil
}

// Session returns the session of the log.
func (l *Log) Session() uint64 { return l.cfg.Session }

// Number returns the number of the log.
func (l *Log) Number() uint64 { return l.cfg.Number }

// Granted records the answer to an OpDelegate: a directory in parent, and numbers from first on.
func (l *Log) Granted(dir posix.Attr, parent, first posix.Ino) {
	if !l.unknown[dir.Ino] && l.table.Grant(l.cfg.Session, dir.Ino) {
		meta.AddDelegated(l.machine, dir, parent)
	}
	l.AddNumbers(first)
}

// AddNumbers records numbers for new inodes.
func (l *Log) AddNumbers(first posix.Ino) {
	l.table.AddNumbers(l.cfg.Session, first)
	l.table.Save()
}

// NeedsNumbers reports whether the client should ask for numbers soon.
func (l *Log) NeedsNumbers() bool {
	return l.table.Len() > 0 && l.table.Spare(l.cfg.Session) < lowNumbers
}

// Covers reports whether the client answers for an inode.
func (l *Log) Covers(ino posix.Ino) bool {
	return l.table.Covers(l.cfg.Session, meta.Object{Ino: ino, IsDir: meta.IsDir(l.machine, ino)})
}

// Newest returns the number of the newest operation that is not acknowledged and may have changed an inode:
// a replica may not have its state. 0: there is none.
func (l *Log) Newest(ino posix.Ino) uint64 {
	if l.restored && len(l.ops) > 0 {
		return l.Last()
	}
	return l.newest[ino]
}

// Released returns a number that grows when the client ceases to answer for an inode, and with the
// acknowledgement of an operation on an inode for which it does not answer any more.
func (l *Log) Released() uint64 { return l.released }

// Query answers a query of covered objects; false: a replica must be asked.
func (l *Log) Query(c *meta.Command) (r meta.Result, ok bool) {
	switch c.Op {
	case meta.OpLookup, meta.OpReadDir, meta.OpGetAttr, meta.OpReadlink, meta.OpGetXattr, meta.OpListXattr, meta.OpExtents:
	default:
		return r, false
	}
	if !l.Covers(c.Ino) || c.Op == meta.OpLookup && c.Name == ".." {
		return r, false
	}
	r = l.machine.Query(c)
	switch c.Op {
	case meta.OpLookup:
		r.Number = uint64(l.cfg.Partition)
		if r.Code == posix.OK {
			l.hide(&r.Attr)
		}
	case meta.OpReadDir:
		for i := range r.Entries {
			l.hide(&r.Entries[i].Attr)
		}
	}
	return r, true
}

// hide leaves only the number and the type of an inode that is not covered, as for one in another partition.
func (l *Log) hide(a *posix.Attr) {
	if !l.Covers(a.Ino) {
		*a = posix.Attr{Ino: a.Ino, Mode: a.Mode.Type()}
	}
}

// Outcome is the fate of an update.
type Outcome uint8

// The outcomes.
const (
	Uncovered Outcome = iota // it is not for the log
	Logged                   // it is executed in the copy, and in the log
	Refused                  // it has failed, and changed nothing
	Numbers                  // the client must ask for numbers first
)

// Update executes an update of covered objects in the copy. The command has the time of the change.
func (l *Log) Update(c *meta.Command) (r meta.Result, outcome Outcome) {
	op := delegation.Op{Command: *c}
	op.Command.Data, op.Command.Blocks = bytes.Clone(c.Data), slices.Clone(c.Blocks) // the caller reuses them
	touched := meta.Touched(l.machine, c)
	holds := l.table.Len()
	switch {
	case !l.table.CoversAll(l.cfg.Session, touched):
		return r, Uncovered
	case c.Op == meta.OpMknod:
		number, ok := l.table.NextNumber(l.cfg.Session, c.Ino)
		if !ok {
			return r, Numbers
		}
		op.Command.Child = number
	}
	r, covered := l.table.ExecuteCovered(l.machine, delegation.Place{Session: l.cfg.Session}, &op)
	switch {
	case !covered:
		return r, Uncovered
	case r.Code != posix.OK:
		return r, Refused
	}
	l.table.Save()
	if l.table.Len() < holds { // it has removed a directory
		l.released++
	}
	inos := make([]posix.Ino, 0, len(touched)+1)
	for _, o := range touched {
		inos = append(inos, o.Ino)
	}
	if made := r.Attr.Ino; made != 0 {
		inos = append(inos, made)
	}
	l.append(op, &r, inos...)
	return r, Logged
}

func (l *Log) append(op delegation.Op, r *meta.Result, inos ...posix.Ino) {
	if l.cfg.Record != nil {
		l.cfg.Record(l.Last()+1, &op, r)
	}
	p := pending{Op: op, inos: inos, size: opCost + len(op.Command.Data) + len(op.Command.Name) + len(op.Command.NewName) + 24*len(op.Command.Blocks)}
	l.ops = append(l.ops, p)
	for _, ino := range inos {
		l.newest[ino] = l.Last()
	}
	l.bytes += p.size
	l.changes++
}

// Reap removes inodes without a name that are not open from the copy: no operation names them again.
func (l *Log) Reap(isOpen func(posix.Ino) bool, now posix.Time) {
	const some = 1 << 10
	for _, o := range l.machine.Orphans(0, some) {
		if !isOpen(o.Ino) {
			l.machine.Reap(o.Ino, now)
		}
	}
}

// Changes returns the number of changes of the copy so far.
func (l *Log) Changes() uint64 { return l.changes }

// Return begins to return directories. One that this client does not know, because the answer to its making
// was lost, is returned, too.
func (l *Log) Return(dirs []posix.Ino) {
	for _, dir := range dirs {
		if l.table.Holder(dir) == 0 {
			l.unknown[dir] = true
		}
		op := delegation.Op{Return: dir}
		_, _ = l.table.Execute(l.machine, delegation.Place{Session: l.cfg.Session}, &op)
		l.append(op, &meta.Result{}, dir)
		l.released++
	}
}

// Dirs returns the directories that the client holds.
func (l *Log) Dirs() []posix.Ino { return l.table.Dirs(l.cfg.Session) }

// Holds returns the number of these directories.
func (l *Log) Holds() int { return l.table.Len() }

// Touching returns the directories to return before an update that is not for the log.
func (l *Log) Touching(c *meta.Command) []posix.Ino {
	if l.table.Len() == 0 {
		return nil
	}
	var all []meta.Object
	add := func(ino posix.Ino, name string) {
		if ino == 0 {
			return
		}
		o := meta.Object{Ino: ino, IsDir: meta.IsDir(l.machine, ino)}
		all = append(all, o)
		if name != "" && o.IsDir {
			if child, exists := meta.EntryOf(l.machine, ino, name); exists {
				all = append(all, child)
			}
		}
	}
	name := c.Name
	if c.Op == meta.OpSetXattr || c.Op == meta.OpRemoveXattr {
		name = ""
	}
	add(c.Ino, name)
	add(c.NewParent, c.NewName)
	add(c.Child, "")
	add(c.NewChild, "")
	return l.table.Holders(all)
}

// IsFull reports whether further changes must wait.
func (l *Log) IsFull() bool { return len(l.ops) >= maxOps || l.bytes >= maxBytes }

// IsLarge reports whether the copy has so many inodes, or directories, that the client should return all
// directories: those that are not in use any more, too.
func (l *Log) IsLarge() bool { return meta.Inodes(l.machine) > maxInodes || l.table.Len() > maxDirs }

// Last returns the number of the newest operation.
func (l *Log) Last() uint64 { return l.first + uint64(len(l.ops)) - 1 }

// Acknowledged returns the number up to which all operations are acknowledged.
func (l *Log) Acknowledged() uint64 { return l.first - 1 }

// Pending returns the operations that are not acknowledged, the oldest first.
func (l *Log) Pending() []delegation.Op {
	all := make([]delegation.Op, len(l.ops))
	for i := range l.ops {
		all[i] = l.ops[i].Op
	}
	return all
}

// Bytes returns the size of the operations that are not acknowledged.
func (l *Log) Bytes() int { return l.bytes }

// Len returns the number of operations that are not acknowledged.
func (l *Log) Len() int { return len(l.ops) }

// Beginning returns a batch without operations: it ends all grants of earlier logs of the session.
func Beginning(number uint64) delegation.Batch { return delegation.Batch{Log: number, First: 1} }
