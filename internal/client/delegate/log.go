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
	opCost     = 64        // bytes of an operation in addition to its content
	maxInodes  = 1 << 16   // inodes in the copy
	maxDirs    = delegation.MaxGrants * 7 / 8
	lowNumbers = 8 // number of free spans below which the client requests more
)

// Config of a Log.
type Config struct {
	Partition uint16
	Session   uint64
	Number    uint64    // number of the log, above those of all earlier logs of the session
	Keys      meta.Keys // store of the copy, which must be empty
	// Record is called with each appended operation, its number and its result. nil: no caller.
	Record func(number uint64, op *delegation.Op, r *meta.Result)
}

// Log is the log, and the copy of the held directories. It is not safe for concurrent use.
type Log struct {
	cfg     Config
	machine *meta.Machine
	table   *delegation.Table

	ops     []pending
	first   uint64 // number of the first of ops
	flights []int  // number of operations in each batch under way; they are the first ones of ops
	bytes   int    // size of ops
	changes uint64 // number of changes executed in the copy
	asked   uint64 // number of requests for existing directories

	restored bool // the copy lacks the changes of ops

	unknown map[posix.Ino]bool // directories that were returned before the answer to their making arrived

	newest   map[posix.Ino]uint64 // by inode: the newest operation of ops that may have changed it
	released uint64
}

// pending is an operation that is not acknowledged.
type pending struct {
	delegation.Op
	size     int
	inos     []posix.Ino // inodes that it may have changed
	withheld bool        // its block is not stored
}

// New returns an empty log.
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

// Granted records the answer to an OpDelegate: a new directory in parent, and a span of numbers from first
// on.
func (l *Log) Granted(dir posix.Attr, parent, first posix.Ino) {
	if !l.unknown[dir.Ino] && l.table.Grant(l.cfg.Session, dir.Ino) {
		meta.AddDelegated(l.machine, dir, parent)
	}
	l.AddNumbers(first)
}

// AddNumbers records a span of numbers for new inodes.
func (l *Log) AddNumbers(first posix.Ino) {
	l.table.AddNumbers(l.cfg.Session, first)
	l.table.Save()
}

// NeedsNumbers reports whether the client should request more numbers for new inodes.
func (l *Log) NeedsNumbers() bool {
	return l.table.Len() > 0 && l.table.Spare(l.cfg.Session) < lowNumbers
}

// Covers reports whether the client answers for an inode.
func (l *Log) Covers(ino posix.Ino) bool {
	return l.table.Covers(l.cfg.Session, meta.Object{Ino: ino, IsDir: meta.IsDir(l.machine, ino)})
}

// Newest returns the number of the newest operation that may have changed an inode and is not acknowledged,
// so that replicas may not have executed it. 0: there is none.
func (l *Log) Newest(ino posix.Ino) uint64 {
	if l.restored && len(l.ops) > 0 {
		return l.Last()
	}
	return l.newest[ino]
}

// Released returns a number that grows when the client stops answering for an inode, and when an operation on
// such an inode is acknowledged.
func (l *Log) Released() uint64 { return l.released }

// Query answers a query of covered objects. If ok is false, a replica must be asked.
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

// hide reduces the attributes of an inode that is not covered to its number and type, as for an inode of
// another partition.
func (l *Log) hide(a *posix.Attr) {
	if !l.Covers(a.Ino) {
		*a = posix.Attr{Ino: a.Ino, Mode: a.Mode.Type()}
	}
}

// Outcome is the fate of an update.
type Outcome uint8

// The outcomes.
const (
	Uncovered Outcome = iota // the update is not for the log
	Logged                   // the update is executed in the copy and appended to the log
	Refused                  // the update has failed, and changed nothing
	Numbers                  // the client must request numbers first
)

// Update executes an update of covered objects in the copy, and appends it to the log. The time of the
// command is the time of the change.
func (l *Log) Update(c *meta.Command) (r meta.Result, outcome Outcome) {
	op := delegation.Op{Command: *c}
	op.Command.Data, op.Command.Blocks = bytes.Clone(c.Data), slices.Clone(c.Blocks) // the caller uses the memory again
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
	if l.table.Len() < holds { // the operation has removed a directory
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

// Reap removes from the copy the inodes without a name that are not open: no later operation names them.
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

// Return begins to return directories. A directory that this client does not know, because the answer to its
// making was lost, is returned as well.
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

// Touching returns the held directories that an update touches which is not for the log: they must be
// returned first.
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

// IsFull reports whether further changes must wait for acknowledgements.
func (l *Log) IsFull() bool { return len(l.ops) >= maxOps || l.bytes >= maxBytes }

// IsLarge reports whether the copy has so many inodes or directories that the client should return all
// directories.
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

// Beginning returns a batch without operations. It ends all grants of earlier logs of the session.
func Beginning(number uint64) delegation.Batch { return delegation.Batch{Log: number, First: 1} }
