package client

import (
	"context"
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Query is route.Router.Query, or the answer of a log.
func (r *router) Query(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d.isIdle() {
		return r.Router.Query(ctx, cmd, to)
	}
	a, answered, err := d.query(ctx, cmd)
	if answered || err != nil {
		return a, err
	}
	for {
		freed := d.freed.Load()
		a, err := r.Router.Query(ctx, cmd, to)
		if err == nil {
			d.hide(cmd.Op, &a)
		}
		if err != nil || d.freed.Load() == freed {
			return a, err
		}
		// The answer may be older than changes of inodes that the client owned until a moment ago.
	}
}

// hide leaves only the numbers and the types of children that the client owns in the answer of a replica for
// their directory, as for children in another partition: the client asks for their attributes.
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

// query answers a query of held objects, and waits before a query of objects with changes that are not
// acknowledged.
func (d *delegations) query(ctx context.Context, cmd *meta.Command) (a route.Answer, answered bool, err error) {
	d.mu.Lock()
	l := d.of(cmd.Ino)
	if l == nil {
		d.mu.Unlock()
		return a, false, nil
	}
	result, ok := l.log.Query(cmd)
	wait := !ok && (l.log.Knows(cmd.Ino) || l.log.Covers(cmd.Ino))
	d.mu.Unlock()
	switch {
	case ok:
		return d.answer(l, result), true, result.Code.Err()
	case wait:
		return a, false, d.drain(ctx)
	}
	return a, false, nil
}

func (d *delegations) answer(l *logOf, r meta.Result) route.Answer {
	seen := d.router.Seen(l.id)
	return route.Answer{Result: r, Partition: l.id, Seen: seen, AsOf: seen, Session: l.log.Session(), Held: true}
}

// Update is route.Router.Update, or an operation of a log. An update that is not for a log is sent after all
// operations of logs.
func (r *router) Update(ctx context.Context, cmd *meta.Command, to route.Target) (route.Answer, error) {
	d := r.delegations
	if d == nil {
		return r.Router.Update(ctx, cmd, to)
	}
	if a, repeated := d.repeated(ctx, cmd); repeated {
		return a, nil
	}
	for {
		turns := d.gate.count()
		switch {
		case d.isIdle():
		case to.Several():
			if err := d.yield(ctx, cmd); err != nil {
				return route.Answer{}, err
			}
		default:
			if a, done, err := d.update(ctx, cmd); done || err != nil {
				return a, err
			}
		}
		if entered, err := d.gate.enter(ctx, turns); err != nil {
			return route.Answer{}, d.router.Outcome(err)
		} else if entered {
			break
		}
	}
	defer d.gate.leave()
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

// UpdateBuilt is route.Router.UpdateBuilt, or an operation of a log.
func (r *router) UpdateBuilt(ctx context.Context, ino posix.Ino, build route.Build) (route.Answer, error) {
	d := r.delegations
	if d == nil {
		return r.Router.UpdateBuilt(ctx, ino, build)
	}
	if a, repeated := d.repeated(ctx, &meta.Command{Op: meta.OpWrite, Ino: ino}); repeated {
		return a, nil
	}
	for {
		turns := d.gate.count()
		if d.covers(ino) {
			cmd, session, err := build(ino.Partition())
			if err != nil {
				return route.Answer{Partition: ino.Partition()}, err
			}
			if session == 0 || d.isOf(ino, session) {
				if a, done, err := d.update(ctx, cmd); done || err != nil {
					return a, err
				}
			}
		}
		if !d.isIdle() {
			if err := d.yield(ctx, &meta.Command{Op: meta.OpWrite, Ino: ino}); err != nil {
				return route.Answer{}, err
			}
		}
		if entered, err := d.gate.enter(ctx, turns); err != nil {
			return route.Answer{}, d.router.Outcome(err)
		} else if entered {
			break
		}
	}
	defer d.gate.leave()
	return r.Router.UpdateBuilt(ctx, ino, build)
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

// update executes an update in a log. If the update is not for a log, it waits until all logs are
// acknowledged.
func (d *delegations) update(ctx context.Context, cmd *meta.Command) (a route.Answer, done bool, err error) {
	for {
		if err := d.admit(ctx); err != nil {
			return a, false, err
		}
		d.mu.Lock()
		l := d.of(cmd.Ino)
		if l != nil && d.router.Unproven(l.id) > provenAge {
			d.mu.Unlock()
			if err := d.router.Renew(ctx, l.id); err != nil && !errors.Is(err, posix.ESTALE) {
				return a, false, err
			}
			continue
		}
		others := d.isPendingBeside(l)
		if l == nil || d.isFull(l) || others {
			d.mu.Unlock()
			if l == nil {
				return a, false, d.yield(ctx, cmd)
			}
			if others { // the changes of this mount are ordered in their order
				if err := d.drain(ctx); err != nil {
					return a, false, err
				}
			}
			continue
		}
		c := *cmd
		c.Time = l.now()
		l.request = requestOf(ctx)
		r, outcome := l.log.Update(&c)
		if outcome == delegate.Logged {
			d.logged(l, cmd)
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
			if d.acquire(ctx, l, cmd) {
				continue
			}
			return a, false, d.yield(ctx, cmd)
		}
	}
}

// isPendingBeside reports whether another log than l has operations that are not acknowledged. The caller
// holds mu.
func (d *delegations) isPendingBeside(l *logOf) bool {
	for _, other := range d.logs {
		if other != l && other.log.Len() > 0 {
			return true
		}
	}
	return false
}

// removes reports whether an operation may answer with an inode that it has removed.
func removes(op meta.Op) bool {
	return op == meta.OpUnlink || op == meta.OpRmdir || op == meta.OpRename
}

// logged keeps the blocks of an operation that was appended, and wakes the sender. The caller holds mu.
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
	signal(l.work)
}

// commitEvery is the number of changes of a copy after which it is tidied.
const commitEvery = 1024

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// now is the time for a change: the estimated clock of the server that has made the first directory.
func (l *logOf) now() posix.Time { return l.offset + posix.Time(route.Elapsed(l.began)) }

// admit waits while the log of any partition is full or too old.
func (d *delegations) admit(ctx context.Context) error {
	for {
		d.mu.Lock()
		var full *logOf
		var wait uint64
		for _, l := range d.logs {
			switch {
			case l.log.Len() > 0 && time.Since(l.oldest) > unsentAge:
				full, wait = l, l.log.Last()
			case d.isFull(l):
				full, wait = l, l.log.Last()-uint64(l.log.Len())/2
			}
		}
		d.mu.Unlock()
		if full == nil {
			return nil
		}
		if err := d.wait(ctx, full, wait); err != nil {
			return err
		}
	}
}

// wait returns when an operation of a log is acknowledged, or lost.
func (d *delegations) wait(ctx context.Context, l *logOf, number uint64) error {
	ctx, cancel := d.router.Operation(ctx)
	defer cancel()
	d.mu.Lock()
	l.waiters++
	defer func() {
		l.waiters--
		d.mu.Unlock()
	}()
	for !l.ended && l.log.Acknowledged() < number {
		moved := l.moved
		d.mu.Unlock()
		signal(l.hurry)
		signal(l.work)
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

// drain returns when all operations that are in logs now are acknowledged, or lost.
func (d *delegations) drain(ctx context.Context) error {
	if d.isIdle() {
		return nil
	}
	type target struct {
		l    *logOf
		last uint64
	}
	d.mu.Lock()
	var all []target
	for _, l := range d.logs {
		if l.log.Len() > 0 {
			all = append(all, target{l, l.log.Last()})
		}
	}
	d.mu.Unlock()
	for _, t := range all {
		if err := d.wait(ctx, t.l, t.last); err != nil {
			return err
		}
	}
	return nil
}

// yield returns the directories that an update touches which is not for a log, and drains all logs.
func (d *delegations) yield(ctx context.Context, cmd *meta.Command) error {
	d.mu.Lock()
	for _, l := range d.logs {
		if dirs := l.log.Touching(cmd); len(dirs) > 0 && cmd.Op != meta.OpLock { // a lock changes no file
			d.wishes.backOff(dirs)
			d.giveBack(l, dirs)
		}
	}
	d.mu.Unlock()
	return d.drain(ctx)
}

// giveBack appends returns to a log. The caller holds mu.
func (d *delegations) giveBack(l *logOf, dirs []posix.Ino) {
	if l.log.Len() == 0 {
		l.oldest = time.Now()
	}
	l.log.Return(dirs)
	signal(l.work)
}

// giveBackAll returns all directories, and drains the logs.
func (d *delegations) giveBackAll(ctx context.Context) error {
	if d.isIdle() {
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
	return d.drain(ctx)
}
