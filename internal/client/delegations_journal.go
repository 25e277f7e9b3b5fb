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

// Journal is the memory of the logs that outlives the process, with the logs that a dead process has left in
// it.
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

// sessions returns the states of partitions for the router: the logs go on with their sessions, which the
// dead process may have begun after it had told its state, and their blocks are undecided.
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

// isNewest reports whether a log is the last one of its partition. There is only one, unless the dead process
// was about to begin the next one.
func (j *Journal) isNewest(i int) bool { return i == 0 || j.Logs[i-1].Partition != j.Logs[i].Partition }

// journaled is the part of a log about the journal.
type journaled struct {
	restored bool   // it has the operations of a dead process, and holds nothing
	request  uint64 // GUARDED_BY delegations.mu; of the kernel, for the operation that is being appended
	block    []byte // GUARDED_BY delegations.mu; of the operation that is being appended, if it is not stored
	unkept   uint64 // GUARDED_BY delegations.mu; the last operation for which the journal had no room
}

// errRestoring means that the operations of a dead process are not ordered yet.
var errRestoring = errors.New("the changes of the process before are not ordered yet")

func idOf(l *logOf) journal.ID {
	return journal.ID{Partition: l.id, Session: l.log.Session(), Number: l.log.Number()}
}

// record keeps an operation that is appended to a log. The caller holds mu.
func (d *delegations) record(l *logOf, number uint64, op *delegation.Op, r *meta.Result) {
	x := journal.Operation{Number: number, Op: *op, Result: *r}
	if op.Return == 0 {
		x.Request, x.Block = l.request, l.block
	}
	if !d.journal.Append(idOf(l), &x) {
		l.unkept = number
	}
}

// isFull reports whether further changes must wait. The caller holds mu. If the journal had no room for an
// operation, later changes wait until that operation is acknowledged: otherwise a process that restores the
// log from the journal would give them other numbers.
func (l *logOf) isFull(j *journal.Journal) bool {
	return l.log.IsFull() || l.unkept > l.log.Acknowledged() || l.log.Len() > 0 && j.Full()
}

// restore sends what a dead process has answered. Nothing else is sent before restore returns.
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

// WithRequest names the request of the kernel for which operations are done. If the process dies before it
// has answered, the kernel sends the request again, and the next process does not execute it twice.
func WithRequest(ctx context.Context, number uint64) context.Context {
	return context.WithValue(ctx, requestKey{}, number)
}

func requestOf(ctx context.Context) uint64 {
	number, _ := ctx.Value(requestKey{}).(uint64)
	return number
}

// repeated returns the outcome of an update that the process before has executed in a log for the same
// request.
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
