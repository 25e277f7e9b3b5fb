package replica

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/reads"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Directories that clients hold exclusively (package delegation). An update of another client, or an update
// of the holder that is not in a batch, waits at the replica that has received it until the directory is
// returned. The first such update is ordered, and has no effect except the recall; then it waits like the
// others. The holder learns of the recall from the answer to its watch request (ask.Watching). A replica
// proposes the end of the grant (entryRevoke) when RevokeAfter has passed since it executed the recall.

// RevokeAfter is the time that a client has to return a directory, by the clock of a replica.
const RevokeAfter = 10 * time.Second

const (
	// entryRevoke ends the grant of a directory.
	entryRevoke order.Kind = 10
	// entryRecall recalls the directories of objects that a linearizable query reads. It is proposed only for
	// granted directories: all replicas are of a version that knows grants.
	entryRecall order.Kind = 12
)

// delegations are the grants, with the times of their recalls at this replica.
type delegations struct {
	*delegation.Table
	partition uint16
	machine   *meta.Machine
	orders    *order.Orders
	now       *multicast.Instant
	recalled  map[delegation.Revocation]time.Duration // when this replica has executed the recall, or has proposed the revocation
	wakeAt    time.Duration
	// readers has the objects of linearizable queries whose directories the next step recalls, with the
	// sessions of the readers; 0: a bound client.
	readers  map[posix.Ino]uint64
	proposed map[posix.Ino]multicast.MessageID // the last proposed recall of each object that is not executed
	budget   recallBudget
}

func loadDelegations(r *Replica) (delegations, error) {
	t, err := delegation.Load(r.keys)
	return delegations{
		Table: t, partition: r.cfg.Partition, machine: r.machine, orders: r.orders, now: &r.now, recalled: map[delegation.Revocation]time.Duration{}, readers: map[posix.Ino]uint64{}, proposed: map[posix.Ino]multicast.MessageID{},
		budget: recallBudget{used: map[string]time.Duration{}},
	}, err
}

// isDelegating reports whether only clients that hold directories exclusively, or request them, use an
// operation.
func isDelegating(op meta.Op) bool { return op == meta.OpDelegate || op == meta.OpBatch }

// checkDelegating returns an error for a malformed operation of package delegation.
func checkDelegating(c *meta.Command, q *ask.Request) error {
	switch {
	case !isDelegating(c.Op):
		return nil
	case len(q.Dest) > 0:
		return fmt.Errorf("operation %d is of one partition, not of %d", c.Op, len(q.Dest))
	case c.Op == meta.OpDelegate && c.Offset == 0:
		return fmt.Errorf("operation %d names no log", c.Op)
	case c.Op == meta.OpBatch:
		_, err := delegation.DecodeBatch(c.Data)
		return err
	}
	return nil
}

// plain replaces a command by the update of the tree that it contains: an OpDelegate with a name creates a
// directory.
func plain(c *meta.Command) {
	if c.Op == meta.OpDelegate && c.Name != "" {
		c.Op, c.Offset = meta.OpMknod, 0
	}
}

// isRecalled reports whether an update must wait for the return of directories that are recalled already.
func (d *delegations) isRecalled(c *meta.Command) bool {
	return d.Len() > 0 && d.Awaits(meta.Touched(d.machine, c))
}

// recall recalls the held directories that an update touches, at its place of the order. stops means that the
// update must not be executed; then r is its result: EHELD if it must wait, or the error of the permission
// check. An update without permission recalls nothing: it is ordered before the holder's unordered changes.
func (d *delegations) recall(c *meta.Command) (r meta.Result, stops bool) {
	if d.IsIdle() {
		return r, false
	}
	touched := meta.Touched(d.machine, c)
	if r.Code = meta.Refused(d.machine, c); r.Code != posix.OK {
		return r, slices.ContainsFunc(touched, d.IsHeld) // otherwise its execution returns the error
	}
	if d.Recall(touched, recaller(c), c.Time) {
		return meta.Result{Code: posix.EHELD}, true
	}
	return r, false
}

// recallHere is like recall, for a command of several partitions.
func (d *delegations) recallHere(c *meta.Command, parties []uint16) bool {
	return !d.IsIdle() && d.Recall(meta.TouchedHere(d.machine, c, parties), recaller(c), c.Time)
}

// recaller returns the session for which an update recalls directories; 0: the client is bound.
func recaller(c *meta.Command) uint64 {
	if c.Authority != nil {
		return 0
	}
	return c.Session
}

// executeBatch executes a batch of a client's log.
func (d *delegations) executeBatch(c *meta.Command, now posix.Time, counter uint64) (meta.Result, error) {
	x, err := delegation.DecodeBatch(c.Data)
	if err != nil {
		return meta.Result{}, err
	}
	for i := range x.Ops {
		if t := &x.Ops[i].Command.Time; *t > now+maxLead {
			*t = now
		}
	}
	done := d.Run(d.machine, delegation.Place{Session: c.Session, Horizon: c.Horizon, Counter: counter}, &x)
	for i := range x.Ops {
		d.Worked(x.Ops[i].Command.Ino, now)
	}
	return meta.Result{Data: done.Append(nil)}, nil
}

// maxLead is the maximum of the time of a change by a client's clock minus the time of its order. A change
// beyond it gets the time of its order, so that a clock that is far ahead does not set times of files.
const maxLead = posix.Time(time.Minute)

// delegate grants a directory that was just created to a session, and adds numbers to the session.
func (d *delegations) delegate(c *meta.Command, made *meta.Result) {
	if made.Code != posix.OK || c.Name != "" && made.Number != uint64(d.partition) {
		return
	}
	defer d.Save()
	if !d.Begin(c.Session, c.Offset) || c.Name != "" && !d.Grant(c.Session, made.Attr.Ino) {
		return
	}
	d.Worked(made.Attr.Ino, c.Time)
	d.addNumbers(c.Session, made)
}

// answer grants an existing directory that a session requests at a place of the partition's order, if that is
// possible. If not, the result is empty.
func (d *delegations) answer(c *meta.Command, place uint64) (r meta.Result) {
	a := delegation.Ask{Dir: c.Ino, Log: c.Offset, Number: c.Length, Ctime: c.Attr.Ctime}
	if c.Flags&meta.NumberGrant != 0 {
		a.Grant = place
	}
	if !d.Answer(d.machine, c.Session, &a, c.Time) {
		return r
	}
	d.Worked(c.Ino, c.Time)
	r = d.machine.Query(&meta.Command{Op: meta.OpGetAttr, Ino: c.Ino})
	r.Data = varint.AppendInt(nil, int64(c.Time))
	if d.Spare(c.Session) < delegation.SpansPerGrant/2 {
		d.addNumbers(c.Session, &r)
		d.Save()
	}
	return r
}

// query answers a query from the replica's state of the tree.
func (d *delegations) query(c *meta.Command) meta.Result {
	if c.Op != meta.OpCarry || c.Authority != nil {
		return d.machine.Query(c)
	}
	return meta.Carry(d.machine, c, func(file posix.Ino) bool { return d.IsOf(c.Ino, file) })
}

// heldFor returns the objects of a linearizable query that another client holds. That client may have
// unordered changes of these objects. A query without permission has no such objects.
func (d *delegations) heldFor(q *reads.Query) []meta.Object {
	c := &q.Command
	if d.Len() == 0 || c.Ino == 0 {
		return nil
	}
	read := []meta.Object{{Ino: c.Ino, IsDir: meta.IsDir(d.machine, c.Ino)}}
	if c.Op == meta.OpLookup {
		if child, exists := meta.EntryOf(d.machine, c.Ino, c.Name); exists {
			read = append(read, child)
		}
	}
	read = slices.DeleteFunc(read, func(o meta.Object) bool { return !d.IsHeld(o) || d.Covers(q.Request.Session, o) })
	if len(read) == 0 || meta.Refused(d.machine, c) != posix.OK {
		return nil
	}
	return read
}

// recallFor adds the held objects of a linearizable query to the next recallRead, if the client of the query
// may recall their directories now.
func (d *delegations) recallFor(q *reads.Query) {
	due := slices.DeleteFunc(d.heldFor(q), func(o meta.Object) bool {
		_, added := d.readers[o.Ino]
		return added || d.orders.Pending(d.proposed[o.Ino]) || d.Awaits([]meta.Object{o})
	})
	if len(due) == 0 || !d.mayRecall(due, q.Call.From) {
		return
	}
	by := cmp.Or(q.Request.Session, anySession)
	if q.Call.From.Bounds() != nil {
		by = 0
	}
	for _, o := range due {
		d.readers[o.Ino] = by
	}
}

// anySession stands for the session of a reader that names none. No session has this number.
const anySession = math.MaxUint64

// recallRead proposes the recalls that recallFor has added.
func (d *delegations) recallRead(now posix.Time) {
	for _, ino := range slices.Sorted(maps.Keys(d.readers)) {
		d.proposed[ino] = d.orders.Propose(order.Entry{Kind: entryRecall, Body: encodeRecall(d.readers[ino], ino, now)})
	}
	clear(d.readers)
}

func encodeRecall(session uint64, ino posix.Ino, now posix.Time) []byte {
	return varint.AppendInt(varint.AppendUint(varint.AppendUint(nil, session), ino), int64(now))
}

// executeRecall executes an entryRecall: it recalls the directory of an object, if the directory is held.
func (d *delegations) executeRecall(body []byte) error {
	b := varint.NewReader(body)
	session, ino, now := b.Uint64(), posix.Ino(b.Uint64()), posix.Time(b.Int())
	if err := b.Done(); err != nil {
		return fmt.Errorf("recall: %w: %w", err, order.ErrVersion)
	}
	delete(d.proposed, ino)
	object := []meta.Object{{Ino: ino, IsDir: meta.IsDir(d.machine, ino)}}
	if d.IsHeld(object[0]) && d.Recall(object, session, now) && !d.Awaits(object) {
		d.awaitProtection(object) // the directory was returned and granted again since the proposal
	}
	return nil
}

// addNumbers adds inode numbers for new files to a session with a log, and puts the first one into the
// result.
func (d *delegations) addNumbers(session uint64, r *meta.Result) {
	first := meta.TakeNumbers(d.machine, delegation.SpansPerGrant*delegation.SpanSize, delegation.SpanSize)
	d.AddNumbers(session, first)
	r.Number2 = uint64(first)
}

// revoke proposes the end of grants with recalls that were not answered.
func (d *delegations) revoke(now time.Duration) {
	d.wakeAt = 0
	if d.Len() == 0 && len(d.recalled) == 0 {
		return
	}
	recalled := d.Revocations()
	if len(recalled) == 0 {
		clear(d.recalled)
		return
	}
	since := make(map[delegation.Revocation]time.Duration, len(recalled))
	for _, v := range recalled {
		at, known := d.recalled[v]
		switch {
		case !known:
			at = now
		case now-at >= RevokeAfter:
			at = now
			d.orders.Propose(order.Entry{Kind: entryRevoke, Body: v.Append(nil)})
		}
		since[v] = at
		d.wakeAt = order.Earliest(d.wakeAt, at+RevokeAfter)
	}
	d.recalled = since
}

// executeRevoke ends a grant that was recalled, and not returned in time.
func (d *delegations) executeRevoke(body []byte) error {
	v, err := delegation.DecodeRevocation(body)
	if err != nil {
		return fmt.Errorf("%w: %w", err, order.ErrVersion)
	}
	d.EndRecalled(&v)
	return nil
}
