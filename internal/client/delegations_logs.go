package client

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/journal"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// mkdir creates a directory that the client holds from then on. If done is false, the caller must create the
// directory without a grant.
func (d *delegations) mkdir(ctx context.Context, cmd *meta.Command) (a route.Answer, done bool, err error) {
	l := d.logFor(ctx, cmd.Ino)
	if l == nil {
		return a, false, nil
	}
	at := l.id
	c := *cmd
	c.Op, c.Offset = meta.OpDelegate, l.log.Number()
	a, err = d.router.Update(ctx, &c, route.Partition(at).Under(l.log.Session()))
	d.asked(l, cmd.Ino, &a, err)
	switch {
	case err == nil:
	case errors.Is(err, posix.EOPNOTSUPP) || a.Refused:
		d.refused()
		return a, false, nil
	case errors.Is(err, posix.EREMOTE) && a.Attr.Ino == 0 && d.router.SessionOf(at) != l.log.Session():
		d.lose(l, "the session expired")
		return a, false, nil
	}
	return a, true, err
}

// logFor returns the log for a new directory in dir; nil: the client cannot hold the directory now.
func (d *delegations) logFor(ctx context.Context, dir posix.Ino) *logOf {
	at, err := d.router.At(dir)
	if err != nil || !d.mayAsk(at) {
		return nil
	}
	l, err := d.open(ctx, at)
	if err != nil {
		return nil
	}
	return l
}

// Grants are the grants that a client may request in a partition. A grant is the permission to hold a
// directory.
type Grants uint8

// The values of Grants.
const (
	NoGrants       Grants = iota
	PlainGrants           // grants without numbers
	NumberedGrants        // grants with numbers (meta.NumberGrant)
)

// grants returns the grants that the client may request in a partition.
func (cfg *Config) grants(partition uint16) Grants {
	if cfg.Grants == nil {
		return NumberedGrants
	}
	return cfg.Grants(partition)
}

// mayAsk reports whether the client may request directories of a partition now.
func (d *delegations) mayAsk(partition uint16) bool {
	if d.cfg.grants(partition) == NoGrants {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().After(d.later)
}

// refused records that the servers do not grant directories to this client. The client requests none for
// delegateLater.
func (d *delegations) refused() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later = time.Now().Add(delegateLater)
	d.notice("delegate", "servers do not let this mount hold directories: each change waits for its order; the servers are of an older version, or the certificate of this mount bounds its users")
}

// asked records the outcome of an OpDelegate. If the outcome is unknown, the log must not end (l.asking stays
// raised): the partition may recall a directory that this client does not know.
func (d *delegations) asked(l *logOf, parent posix.Ino, a *route.Answer, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, posix.ETIMEDOUT), errors.Is(err, posix.EIO) && !a.Refused:
		return
	case err == nil && !l.ended && a.Number == uint64(l.id) && a.Number2 != 0:
		if l.offset == 0 || a.Attr.Ctime > l.now() {
			l.offset, l.began = a.Attr.Ctime, time.Now()
		}
		l.log.Granted(a.Attr, parent, posix.Ino(a.Number2))
	}
	l.asking--
	d.endEmpty(l)
}

// endEmpty ends a log without directories and operations, so that the next log begins with an empty copy. The
// caller holds mu.
func (d *delegations) endEmpty(l *logOf) {
	if !l.ended && l.asking == 0 && l.log.Len() == 0 && l.log.Holds() == 0 {
		d.end(l)
		if l.restored {
			d.free(l)
		}
	}
}

// refill requests inode numbers for a log.
func (d *delegations) refill(ctx context.Context, l *logOf) error {
	c := meta.Command{Op: meta.OpDelegate, Offset: l.log.Number()}
	a, err := d.router.Update(ctx, &c, route.Partition(l.id).Under(l.log.Session()))
	switch {
	case err == nil && a.Number2 != 0:
		d.mu.Lock()
		defer d.mu.Unlock()
		if !l.ended {
			l.log.AddNumbers(posix.Ino(a.Number2))
		}
	case err == nil, errors.Is(err, posix.EREMOTE):
		d.lose(l, "the session expired")
		return nil
	}
	return err
}

// open returns the log of a partition, and begins one if there is none.
func (d *delegations) open(ctx context.Context, partition uint16) (*logOf, error) {
	session, err := d.router.Session(ctx, partition)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.logs[partition]; l != nil {
		if l.restored {
			return nil, errRestoring
		}
		l.asking++
		return l, nil
	}
	number := max(d.last[session]+1, uint64(time.Now().UnixMicro())) // higher than the numbers of earlier processes
	l := newLogOf(partition)
	l.asking = 1
	l.log, err = delegate.New(d.logConfig(l, session, number))
	if err != nil {
		return nil, err
	}
	d.journal.Begin(idOf(l))
	d.begin(l)
	d.router.Go(func(life context.Context) { d.watchRecalls(life, l) })
	return l, nil
}

func newLogOf(partition uint16) *logOf {
	return &logOf{
		id: partition, store: kv.NewMemory(), moved: make(chan struct{}), work: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
}

func (d *delegations) logConfig(l *logOf, session, number uint64) delegate.Config {
	cfg := delegate.Config{Partition: l.id, Session: session, Number: number, Keys: l.store}
	if d.journal != nil {
		cfg.Record = func(number uint64, op *delegation.Op, r *meta.Result) { d.record(l, number, op, r) }
	}
	return cfg
}

// begin adds a log. The caller holds mu.
func (d *delegations) begin(l *logOf) {
	d.last[l.log.Session()] = l.log.Number()
	d.logs[l.id] = l
	d.held.Add(1)
	d.router.Go(func(life context.Context) { d.send(life, l) })
}

// lose ends a log. Its pending operations are lost (L4).
func (d *delegations) lose(l *logOf, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !l.ended {
		d.drop(l, reason)
		d.free(l)
	}
}

// suspend ends all logs. The caller has returned all directories.
func (d *delegations) suspend() {
	if d.isIdle() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		d.drop(l, "the client was suspended")
	}
}

// drop ends a log, and records the loss of its pending operations. The caller holds mu.
func (d *delegations) drop(l *logOf, reason string) {
	lost := l.log.Pending()
	d.end(l)
	if len(lost) == 0 {
		return
	}
	d.counts.lost.Add(uint64(len(lost)))
	x := Loss{When: time.Now(), Partition: l.id, Changes: len(lost), Reason: reason, Names: describe(lost)}
	d.losses.add(x, lost)
	d.cfg.Logger.Error("changes that programs have made are lost: they were not ordered; fsync and close of each file and directory concerned that is open, and globalfs sync, report EIO",
		"partition", x.Partition, "changes", x.Changes, "reason", reason, "first", x.Names)
}

// free begins a new log at the partition of a lost log. This ends the grants of the lost log, so that updates
// of other clients need not wait for a revocation. The caller holds mu.
func (d *delegations) free(l *logOf) {
	session := l.log.Session()
	d.last[session] = max(d.last[session], l.log.Number()) + 1
	x := delegate.Beginning(d.last[session])
	id := journal.ID{Partition: l.id, Session: session, Number: x.Log}
	d.journal.Begin(id) // if this process dies, the next process calls free again
	f := &freeing{log: l, done: make(chan struct{})}
	d.freeing[l.id] = f
	d.router.Go(func(life context.Context) {
		defer close(f.done)
		c := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
		_, err := d.router.Update(life, &c, route.Partition(l.id).Under(session))
		if f.err = err; errors.Is(err, posix.EREMOTE) {
			f.err = nil // the session has ended, and with it all its grants
		}
		if err != nil && life.Err() == nil {
			d.notice("free", "directories that this mount has held cannot be returned: their partition ends that when another mount needs them", "partition", l.id, "error", err)
		}
		if err == nil || life.Err() == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.journal.End(id)
		}
	})
}

// freeing is the return of the directories of a lost log.
type freeing struct {
	log  *logOf
	done chan struct{} // closed when the outcome is known
	err  error         // valid when done is closed; nil: the directories are returned
}

// failed reports whether the attempt to return the directories has ended with an error.
func (f *freeing) failed() bool {
	select {
	case <-f.done:
		return f.err != nil
	default:
		return false
	}
}

// wait returns when the outcome is known.
func (f *freeing) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end removes a log. The caller holds mu.
func (d *delegations) end(l *logOf) {
	l.ended = true
	d.journal.End(idOf(l))
	d.freed.Add(1)
	delete(d.logs, l.id)
	d.held.Add(-1)
	d.release(l.log.Pending())
	close(l.moved)
	l.moved = make(chan struct{})
	signal(l.work)
}

// release drops the blocks of operations that were acknowledged or lost.
func (d *delegations) release(ops []delegation.Op) {
	for i := range ops {
		for _, b := range ops[i].Command.Blocks {
			d.waiting.drop(b.ID)
			d.router.DropBlock(b.ID)
		}
	}
}
