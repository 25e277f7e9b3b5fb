package client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Waits for logs. All updates of a client are ordered in their order: an update that was asked after another
// one was answered comes behind it. So an update waits until the operations that were in logs when it was
// asked are acknowledged: those of all logs if it is not for a log, otherwise those of the other logs. It
// waits for nothing that is appended later, however much that is.
//
// Each wait ends if the servers answer. The batches of a log are sent by the goroutines of the log, which
// wait for the network only: not for other logs, the gate, the kernel or its notices. So callers that wait
// for the logs of each other's partitions both go on. So does a caller whose request has the lock of a
// directory for which the kernel is to take in a notice.

// end is the newest operation of a log at some time.
type end struct {
	log    *logOf
	number uint64
}

// noPartition is above the number of any partition.
const noPartition = ^uint16(0)

// obstacle returns the operation for whose acknowledgement a change for log l waits: the servers do not
// answer, the log is full, or other logs have operations from before the change. The changes of this mount
// are ordered in their order; those that are answered while this one waits are not before it. The caller
// holds mu.
func (d *delegations) obstacle(l *logOf, before []end) (e end, waits bool) {
	switch {
	case l.log.Len() > 0 && time.Since(l.oldest) > unsentAge:
		return end{l, l.log.Last()}, true
	case l.isFull(d.journal):
		return end{l, l.log.Last() - uint64(l.log.Len())/2}, true
	}
	for _, e := range before {
		if !e.log.ended && e.log.log.Acknowledged() < e.number {
			return e, true
		}
	}
	return e, false
}

// AnswersAtOnce reports whether a change of an inode, also a write of a block, would be answered from a log
// without a wait for others. It may become false at any time.
func (c *Client) AnswersAtOnce(ino posix.Ino) bool {
	d := c.router.delegations
	if d.isIdle() || !c.router.waiting.takesFor(ino, meta.MaxBlock) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	if l == nil || !l.log.Covers(ino) || d.router.Unproven(l.id) > provenAge {
		return false
	}
	for _, other := range d.logs {
		if other != l && other.log.Len() > 0 {
			return false
		}
	}
	_, waits := d.obstacle(l, nil)
	return !waits
}

// wait returns when an operation of a log is acknowledged, or lost.
func (d *delegations) wait(ctx context.Context, l *logOf, number uint64) error {
	ctx, cancel := d.router.Operation(ctx)
	defer cancel()
	d.mu.Lock()
	l.waiters++
	l.wanted = max(l.wanted, number)
	defer func() {
		l.waiters--
		d.mu.Unlock()
	}()
	for !l.ended && l.log.Acknowledged() < number {
		moved := l.moved
		d.mu.Unlock()
		signal(l.hurry)
		signal(l.work)
		d.waiting.hasten()
		var err error
		select {
		case <-moved:
		case <-ctx.Done():
			err = d.router.Outcome(ctx.Err())
		}
		d.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// ends returns the ends of the logs with operations that are not acknowledged, but for that of a partition.
func (d *delegations) ends(but uint16) (all []end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.logs {
		if l.id != but && l.log.Len() > 0 {
			all = append(all, end{l, l.log.Last()})
		}
	}
	return all
}

// await returns when operations are acknowledged, or lost.
func (d *delegations) await(ctx context.Context, all []end) error {
	ctx, cancel := d.router.Operation(ctx)
	defer cancel()
	for _, e := range all {
		if err := d.wait(ctx, e.log, e.number); err != nil {
			return err
		}
	}
	return nil
}

// drain returns when all operations that are in logs now are acknowledged, or lost. With onDisk it asks for
// an answer that tells that they are on disk. An operation that was sent before has no such answer: the
// caller asks the replicas then (route.Router.Persist).
func (d *delegations) drain(ctx context.Context, onDisk bool) error {
	if d.isIdle() {
		return nil
	}
	all := d.ends(noPartition)
	if onDisk {
		d.mu.Lock()
		for _, e := range all {
			e.log.onDisk = max(e.log.onDisk, e.number)
		}
		d.mu.Unlock()
	}
	return d.await(ctx, all)
}

// yield returns the directories that an update touches which is not for a log, and drains all logs.
func (d *delegations) yield(ctx context.Context, cmd *meta.Command) error {
	if d.isIdle() {
		return nil
	}
	d.mu.Lock()
	for _, l := range d.logs {
		if dirs := l.log.Touching(cmd); len(dirs) > 0 && cmd.Op != meta.OpLock { // a lock changes no file
			d.wishes.backOff(dirs)
			d.giveBack(l, dirs)
		}
	}
	d.mu.Unlock()
	return d.drain(ctx, false)
}

// giveBack appends returns to a log. The caller holds mu.
func (d *delegations) giveBack(l *logOf, dirs []posix.Ino) {
	if l.log.Len() == 0 {
		l.oldest = time.Now()
	}
	l.log.Return(dirs)
	d.noteReleased(l)
	l.appended()
}

// noteReleased records that the client has ceased to own inodes. The caller holds mu.
func (d *delegations) noteReleased(l *logOf) {
	if n := l.log.Released(); n != l.released {
		l.released = n
		d.freed.Add(1)
	}
}

// giveBackAll returns all directories, and drains the logs. It returns when the directories of lost logs and
// of a dead process are returned, too.
func (d *delegations) giveBackAll(ctx context.Context) error {
	if d == nil {
		return nil
	}
	if err := d.beginAsking(ctx); err != nil {
		return d.router.Outcome(err)
	}
	defer d.endAsking()
	d.mu.Lock()
	for _, l := range d.logs {
		d.giveBack(l, l.log.Dirs())
	}
	d.mu.Unlock()
	if err := d.drain(ctx, false); err != nil {
		return err
	}
	d.mu.Lock()
	for _, f := range d.freeing {
		if f.failed() {
			d.free(f.log)
		}
	}
	lost := slices.Collect(maps.Values(d.freeing))
	d.mu.Unlock()
	ctx, cancel := d.router.Operation(ctx)
	defer cancel()
	for _, f := range lost {
		if err := f.wait(ctx); err != nil {
			return d.router.Outcome(err)
		}
	}
	return nil
}
