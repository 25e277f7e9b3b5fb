package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/journal"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
)

// Journal is the memory of the logs, which outlives the process. Logs has the logs that a dead process has
// left in this memory.
type Journal struct {
	*journal.Journal
	Logs []journal.Log
}

// JournalSize is the size of the memory of a Journal, in bytes.
const JournalSize = journal.Size

// OpenJournal opens the memory.
func OpenJournal(memory []byte) (Journal, error) {
	j, logs, err := journal.Open(memory)
	return Journal{j, logs}, err
}

// Pending returns the number of changes in the memory of a Journal that are not known to be ordered, and
// whether the process may hold directories.
func Pending(memory []byte) (n int, holds bool, err error) {
	_, logs, err := journal.Open(memory)
	for i := range logs {
		n += len(logs[i].Ops)
	}
	return n, len(logs) > 0, err
}

// sessions adds the sessions of the logs to the states of partitions that the router resumes. The dead
// process may have begun such a session after it had saved its state. The blocks of the logs are undecided
// blocks of their sessions.
func (j *Journal) sessions(known []route.PartitionState) []route.PartitionState {
	all := slices.Clone(known)
	for i := range j.Logs {
		l := &j.Logs[i]
		if !j.isNewest(i) {
			continue
		}
		at, found := slices.BinarySearchFunc(all, l.Partition, func(p route.PartitionState, id uint16) int { return cmp.Compare(p.ID, id) })
		if !found {
			all = slices.Insert(all, at, route.PartitionState{ID: l.Partition})
		}
		s := route.SessionState{ID: l.Session}
		if known := all[at].Session; known != nil && known.ID == l.Session {
			s = *known
		}
		for n := range l.Ops {
			for _, b := range l.Ops[n].Op.Command.Blocks {
				s.Undecided = append(s.Undecided, b.ID.Counter())
			}
		}
		all[at].Session = &s
	}
	return all
}

// isNewest reports whether a log is the newest one of its partition. A partition has more than one log only
// if the dead process was about to replace its log.
func (j *Journal) isNewest(i int) bool { return i == 0 || j.Logs[i-1].Partition != j.Logs[i].Partition }

// journaled is the state of a log that concerns the journal.
type journaled struct {
	restored bool   // the log has the operations of a dead process, and holds no directories
	request  uint64 // GUARDED_BY delegations.mu; the kernel's request for the operation that is being appended
	block    []byte // GUARDED_BY delegations.mu; the block of this operation, if the block is not stored
	unkept   uint64 // GUARDED_BY delegations.mu; the last operation for which the journal had no room
}

// errRestoring means that the operations of a dead process are not ordered yet.
var errRestoring = errors.New("the changes of the process before are not ordered yet")

func idOf(l *logOf) journal.ID {
	return journal.ID{Partition: l.id, Session: l.log.Session(), Number: l.log.Number()}
}

// record writes an operation that is appended to a log into the journal. The caller holds mu.
func (d *delegations) record(l *logOf, number uint64, op *delegation.Op, r *meta.Result) {
	x := journal.Operation{Number: number, Op: *op, Result: *r}
	if op.Return == 0 {
		x.Request, x.Block = l.request, l.block
	}
	if !d.journal.Append(idOf(l), &x) {
		l.unkept = number
	}
}

// isFull reports whether further changes must wait. If the journal had no room for an operation, later
// changes wait until that operation is acknowledged: otherwise a process that restores the log from the
// journal would assign other numbers to the later changes. The caller holds mu.
func (l *logOf) isFull(j *journal.Journal) bool {
	return l.log.IsFull() || l.unkept > l.log.Acknowledged() || l.log.Len() > 0 && j.Full()
}

// restore continues the logs of a dead process, so that the changes which it has answered are sent. The
// client sends nothing else before restore returns.
func (d *delegations) restore(logs []journal.Log) error {
	switch {
	case len(logs) == 0:
		return nil
	case d == nil:
		return errors.New("client: the process before has answered changes that are not ordered: mount with --delegate, as before")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range logs {
		if !d.cfg.Journal.isNewest(i) {
			continue
		}
		if err := d.restoreOne(&logs[i]); err != nil {
			return err
		}
	}
	return nil
}

// restoreOne restores the log of one partition. The caller holds mu.
func (d *delegations) restoreOne(of *journal.Log) (err error) {
	l := newLogOf(of.Partition)
	l.restored = true
	var ops []delegation.Op
	for i := range of.Ops {
		ops = append(ops, of.Ops[i].Op)
	}
	l.log, err = delegate.Restore(d.logConfig(l, of.Session, of.Number), of.First, ops)
	if err != nil {
		return err
	}
	l.oldest = time.Now()
	d.counts.restored.Add(uint64(len(ops)))
	d.begin(l)
	for i := range of.Ops {
		if x := &of.Ops[i]; x.Block != nil {
			d.waiting.keep(l, x.Number, block.New(x.Op.Command.Blocks[0].ID, x.Block))
		}
	}
	if len(ops) > 0 {
		d.cfg.Logger.Info("changes that the process before has answered are being ordered", "partition", l.id, "changes", len(ops))
		signal(l.work)
	}
	d.endEmpty(l)
	return nil
}

// requestKey is the key of the number of a request in a context.
type requestKey struct{}

// WithRequest adds the number of the kernel's request to the context of its operations. If the process dies
// before it has answered the request, the kernel sends the request again. The number prevents that the next
// process executes the request twice.
func WithRequest(ctx context.Context, number uint64) context.Context {
	return context.WithValue(ctx, requestKey{}, number)
}

func requestOf(ctx context.Context) uint64 {
	number, _ := ctx.Value(requestKey{}).(uint64)
	return number
}

// repeated returns the outcome of an update that the previous process has already executed in a log for the
// same request. ok is false if there is none.
func (d *delegations) repeated(ctx context.Context, cmd *meta.Command) (a route.Answer, ok bool) {
	if d == nil || d.journal == nil {
		return a, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.journal.Answer(requestOf(ctx), func(o *journal.Operation) bool { return isSame(&o.Op.Command, cmd) })
	if !ok {
		return a, false
	}
	seen := d.router.Seen(x.Partition)
	return route.Answer{Result: x.Result, Partition: x.Partition, Seen: seen, AsOf: seen, Session: x.Session, Held: true}, true
}

// isSame reports whether two commands of one request are the same change.
func isSame(a, b *meta.Command) bool {
	return a.Op == b.Op && a.Ino == b.Ino && a.Name == b.Name && a.NewParent == b.NewParent && a.NewName == b.NewName
}
