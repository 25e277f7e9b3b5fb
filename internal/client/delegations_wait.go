package client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Waits for logs. The updates of a client are ordered in program order: an update that begins after the
// answer to another update is ordered after it. So an update waits until the operations that were in logs at
// its beginning are acknowledged. An update that is not executed in a log waits for all logs. An update that
// is executed in a log waits for the other logs. No update waits for operations that are appended after its
// beginning.
//
// Each wait ends if the servers answer. The goroutines of a log send its batches, and wait for the network
// only: not for other logs, the gate, the kernel or its notices. So two callers that wait for each other's
// logs do not block each other. A caller whose request has the kernel's lock of a directory also continues,
// although a notice for this directory waits for the lock.

// end is the last operation of a log at some time.
type end struct {
	log    *logOf
	number uint64
}

// noPartition is not the number of any partition.
const noPartition = ^uint16(0)

// obstacle returns an operation whose acknowledgement a change in log l must await, because the servers do
// not answer, the log is full, or another log has operations from before the change (before). Operations that
// are appended to other logs while the change waits are not ordered before it. waits is false if there is no
// such operation. The caller holds mu.
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

// AnswersAtOnce reports whether a log would answer a change of an inode, also a write of a block, without a
// wait for other operations. The result can change at any time.
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

// wait waits until an operation of a log is acknowledged or lost.
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

// ends returns the ends of all logs with unacknowledged operations, except the log of partition but.
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

// await waits until operations are acknowledged or lost.
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

// drain waits until all operations that are in logs now are acknowledged or lost. With onDisk, the batches
// that are sent from now on request an answer which says that the operations are on disk. The answer to a
// batch that was sent before does not say that: then Persister.persist must query the replicas.
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

// yield prepares an update that is not executed in a log: it returns the directories that the update touches,
// and drains all logs.
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

// giveBack appends the returns of directories to a log. The caller holds mu.
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

// giveBackAll returns all directories to their partitions, and drains the logs. It also waits until the
// directories of lost logs and of a dead process are returned.
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
