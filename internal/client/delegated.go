package client

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Query answers a query from a log, or calls route.Router.Query.
func (r *router) Query(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d.isIdle() {
		a, err := r.Router.Query(ctx, cmd, to)
		r.met(cmd, &a, err)
		return a, err
	}
	a, answered, err := d.query(ctx, cmd)
	if answered || err != nil {
		return a, err
	}
	freed, before := d.freed.Load(), d.ends(noPartition)
	a, err = r.Router.Query(ctx, cmd, to)
	r.met(cmd, &a, err)
	if err == nil {
		d.hide(cmd.Op, &a)
	}
	if err != nil || d.freed.Load() == freed {
		return a, err
	}
	// The answer may be older than changes of inodes that the client owned until a moment ago. Once all
	// changes from before the query are acknowledged, replicas answer with them.
	if err := d.await(ctx, before); err != nil {
		return a, err
	}
	a, err = r.Router.Query(ctx, cmd, to)
	if err == nil {
		d.hide(cmd.Op, &a)
	}
	return a, err
}

// freedBy returns the number of events in which the client has begun or ceased to own inodes.
func freedBy(d *delegations) uint64 {
	if d == nil {
		return 0
	}
	return d.freed.Load()
}

// hide removes the attributes of children that the client owns from the answer of a replica for their
// directory. Their numbers and types stay, as for children in another partition, so that the client queries
// the attributes.
func (d *delegations) hide(op meta.Op, a *route.Answer) {
	switch op {
	case meta.OpLookup:
		if a.Attr.Nlink > 0 && d.owns(a.Attr.Ino) {
			a.Attr, a.Number = posix.Attr{Ino: a.Attr.Ino, Mode: a.Attr.Mode.Type()}, uint64(a.Partition)
		}
	case meta.OpReadDir:
		for i := range a.Entries {
			if e := &a.Entries[i]; e.Attr.Nlink > 0 && d.owns(e.Attr.Ino) {
				e.Attr, e.At = posix.Attr{Ino: e.Attr.Ino, Mode: e.Attr.Mode.Type()}, a.Partition
			}
		}
	}
}

// query answers a query from a log, if the client holds the objects. Otherwise, it waits until the client's
// changes of the object are acknowledged, so that the caller can query a replica. It does not wait for the
// usage of a partition, which changes all the time.
func (d *delegations) query(ctx context.Context, cmd *meta.Command) (a route.Answer, answered bool, err error) {
	if cmd.Op == meta.OpStatFS {
		return a, false, nil
	}
	d.mu.Lock()
	l := d.of(cmd.Ino)
	if l == nil {
		d.mu.Unlock()
		return a, false, nil
	}
	result, ok := l.log.Query(cmd)
	newest := l.log.Newest(cmd.Ino)
	if !ok && l.log.Covers(cmd.Ino) {
		newest = l.log.Last()
	}
	d.mu.Unlock()
	switch {
	case ok:
		return d.answer(l, result), true, result.Code.Err()
	case newest != 0:
		return a, false, d.wait(ctx, l, newest)
	}
	return a, false, nil
}

func (d *delegations) answer(l *logOf, r meta.Result) route.Answer {
	seen := d.router.Seen(l.id)
	return route.Answer{Result: r, Partition: l.id, Seen: seen, AsOf: seen, Session: l.log.Session(), Held: true}
}

// Update executes an update in the log of a held directory, if the client holds the objects of the update.
// Otherwise it calls route.Router.Update, after the operations that were in the logs when Update was called.
func (r *router) Update(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d == nil {
		return r.Router.Update(ctx, cmd, to)
	}
	if a, repeated := d.repeated(ctx, cmd); repeated {
		return a, nil
	}
	t := touchOf(cmd)
	for entered := false; !entered; {
		turns := d.gate.count()
		if !d.isIdle() && !to.Several() {
			if a, done, err := d.update(ctx, cmd, nil); done || err != nil {
				return a, err
			}
		}
		var err error
		if entered, err = d.gate.enter(ctx, t, turns); err != nil {
			return route.Answer{}, d.router.Outcome(err)
		}
	}
	defer d.gate.leave(t)
	if err := d.yield(ctx, cmd); err != nil {
		return route.Answer{}, err
	}
	a, done, err := route.Answer{}, false, error(nil)
	if isMkdir(cmd) && !to.Several() {
		a, done, err = d.mkdir(ctx, cmd)
	}
	if !done {
		a, err = r.Router.Update(ctx, cmd, to)
	}
	if err == nil && !to.Several() {
		d.changed(cmd, &a.Result)
	}
	return a, err
}

// UpdateBuilt executes an update in a log, or calls route.Router.UpdateBuilt.
func (r *router) UpdateBuilt(ctx context.Context, ino posix.Ino, build route.Build) (route.Answer, error) {
	d := r.delegations
	if d == nil {
		return r.Router.UpdateBuilt(ctx, ino, build)
	}
	write := meta.Command{Op: meta.OpWrite, Ino: ino}
	if a, repeated := d.repeated(ctx, &write); repeated {
		return a, nil
	}
	t := touchOf(&write)
	for entered := false; !entered; {
		turns := d.gate.count()
		if d.covers(ino) {
			cmd, session, err := build(ino.Partition())
			if err != nil {
				return route.Answer{Partition: ino.Partition()}, err
			}
			if session == 0 || d.isOf(ino, session) {
				if a, done, err := d.update(ctx, cmd, nil); done || err != nil {
					return a, err
				}
			}
		}
		var err error
		if entered, err = d.gate.enter(ctx, t, turns); err != nil {
			return route.Answer{}, d.router.Outcome(err)
		}
	}
	defer d.gate.leave(t)
	if err := d.yield(ctx, &write); err != nil {
		return route.Answer{}, err
	}
	a, err := r.Router.UpdateBuilt(ctx, ino, build)
	if err == nil {
		d.changed(&write, &a.Result)
	}
	return a, err
}

func (d *delegations) isOf(ino posix.Ino, session uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.of(ino)
	return l != nil && l.log.Session() == session
}

func isMkdir(cmd *meta.Command) bool {
	return cmd.Op == meta.OpMknod && cmd.Mode.IsDir() && cmd.Name != ""
}

// update executes an update in a log. b is the block of a write that is not stored yet; nil: there is none.
// done is false if the client does not hold the objects of the update, or if there is no room for the block.
func (d *delegations) update(ctx context.Context, cmd *meta.Command, b *block.Block) (a route.Answer, done bool, err error) {
	before := d.ends(cmd.Ino.Partition())
	for {
		d.mu.Lock()
		l := d.of(cmd.Ino)
		if l == nil {
			d.mu.Unlock()
			return a, false, nil
		}
		covers := l.log.Covers(cmd.Ino)
		if covers && d.router.Unproven(l.id) > provenAge {
			d.mu.Unlock()
			if err := d.router.Renew(ctx, l.id); err != nil && !errors.Is(err, posix.ESTALE) {
				return a, false, err
			}
			continue
		}
		if e, waits := d.obstacle(l, before); waits && covers {
			d.mu.Unlock()
			if err := d.wait(ctx, e.log, e.number); err != nil {
				return a, false, err
			}
			continue
		}
		if b != nil && !(covers && d.waiting.takes(len(b.Data)) && d.journal.TakesBlock(len(b.Data))) {
			d.mu.Unlock()
			return a, false, nil
		}
		r, outcome := meta.Result{}, delegate.Uncovered
		if covers {
			r, outcome = d.append(ctx, l, cmd, b)
		}
		last := l.log.Last()
		unkept := l.unkept == last // the next process would not know the operation
		d.mu.Unlock()
		switch outcome {
		case delegate.Logged:
			if r.Attr.Nlink == 0 && !removes(cmd.Op) || unkept { // the inode exists as long as its caller has it open
				err = d.wait(ctx, l, last)
			}
			return d.answer(l, r), true, err
		case delegate.Refused:
			return d.answer(l, r), true, r.Code.Err()
		case delegate.Numbers:
			if err := d.refill(ctx, l); err != nil {
				return a, false, err
			}
		default:
			if !d.acquire(ctx, l, cmd) {
				return a, false, nil
			}
		}
	}
}

// append executes an update in a log. The caller holds mu.
func (d *delegations) append(ctx context.Context, l *logOf, cmd *meta.Command, b *block.Block) (meta.Result, delegate.Outcome) {
	c := *cmd
	c.Time = l.now()
	l.request, l.block = requestOf(ctx), nil
	if b != nil {
		l.block = b.Data
	}
	r, outcome := l.log.Update(&c)
	if outcome == delegate.Logged {
		if b != nil {
			d.waiting.keep(l, l.log.Last(), *b)
		}
		d.noteReleased(l)
		d.logged(l, cmd)
	}
	return r, outcome
}

// removes reports whether the answer to an operation may contain an inode that the operation has removed.
func removes(op meta.Op) bool {
	return op == meta.OpUnlink || op == meta.OpRmdir || op == meta.OpRename
}

// logged keeps the blocks of an appended operation, and wakes the sender. The caller holds mu.
func (d *delegations) logged(l *logOf, cmd *meta.Command) {
	d.counts.logged.Add(1)
	for i := range cmd.Blocks {
		d.router.KeepBlock(cmd.Blocks[i].ID)
	}
	if changes := l.log.Changes(); changes%commitEvery == 0 {
		l.log.Reap(d.router.IsHeld, l.now())
		_ = l.store.Commit(false) // in memory
	}
	if l.log.Len() == 1 {
		l.oldest = time.Now()
	}
	l.appended()
}

// commitEvery is the number of changes of a copy after which the client removes unlinked inodes from the copy
// and commits its store.
const commitEvery = 1024

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// now returns the time for a change: an estimate of the servers' clock.
func (l *logOf) now() posix.Time { return l.offset + posix.Time(route.Elapsed(l.began)) }
