package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Constants of requests for existing directories.
const (
	askPatience = 5 * time.Second        // time limit of the request and the transfer of the copy
	gatePause   = 500 * time.Millisecond // time limit of the wait for running updates
	carryBytes  = 512 << 10              // size of one page of the copy
	maxCarried  = 16 << 20               // maximum size of a copy; larger directories are not held
)

// changed records an update that was not executed in a log. If the client works alone in the directory, as
// far as it knows, changed requests the directory in the background.
func (d *delegations) changed(c *meta.Command, r *meta.Result) {
	dir, ctime := d.wishes.changedIn(c, r)
	if dir == 0 || !d.wishes.changed(dir, ctime) || !d.mayAsk(dir.Partition()) {
		return
	}
	select {
	case d.asking <- struct{}{}:
	default:
		return // another request is under way; a later change will request the directory
	}
	d.router.Go(func(life context.Context) {
		defer d.endAsking()
		d.ask(life, dir)
	})
}

// met records the directories of the regular files in the answer to a query. A change of such a file counts
// as a change in its directory.
func (r *router) met(c *meta.Command, a *route.Answer, err error) {
	d := r.delegations
	if d == nil || err != nil {
		return
	}
	switch c.Op {
	case meta.OpLookup:
		d.wishes.met(c.Ino, &a.Attr)
	case meta.OpReadDir:
		for i := range a.Entries {
			d.wishes.met(c.Ino, &a.Entries[i].Attr)
		}
	}
}

// acquire requests the directories that the client must hold to execute an update in log l. It reports
// whether the client holds all of them now.
func (d *delegations) acquire(ctx context.Context, l *logOf, cmd *meta.Command) bool {
	d.mu.Lock()
	dirs := l.log.Lacks(cmd)
	d.mu.Unlock()
	if len(dirs) == 0 || !d.mayAsk(l.id) || d.beginAsking(ctx) != nil {
		return false
	}
	defer d.endAsking()
	for _, dir := range dirs {
		if !d.covers(dir) && (!d.wishes.mayAsk(dir) || !d.ask(ctx, dir)) {
			return false
		}
	}
	return true
}

// beginAsking waits until no other request is under way. The caller must call endAsking.
func (d *delegations) beginAsking(ctx context.Context) error {
	select {
	case d.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *delegations) endAsking() { <-d.asking }

// ask requests an existing directory, and reports whether the client holds it now.
func (d *delegations) ask(ctx context.Context, dir posix.Ino) (held bool) {
	defer func() {
		if held {
			d.wishes.granted()
			d.freed.Add(1)
		} else {
			d.wishes.backOff([]posix.Ino{dir})
		}
	}()
	if at, err := d.router.At(dir); err != nil || at != dir.Partition() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	l, err := d.open(ctx, dir.Partition())
	if err != nil {
		return false
	}
	running, stop := context.WithTimeout(ctx, gatePause)
	err = d.gate.shut(running, dir)
	stop()
	if err != nil {
		d.answered(l)
		return false
	}
	defer d.gate.open()
	cmd, ok := d.askFor(l, dir)
	if !ok {
		return false
	}
	a, err := d.router.Update(ctx, &cmd, route.Partition(l.id).Under(l.log.Session()))
	switch {
	case errors.Is(err, posix.ETIMEDOUT), errors.Is(err, posix.EIO) && !a.Refused:
		return false // the outcome is unknown: l.asking keeps the log, because the directory may be recalled
	case errors.Is(err, posix.EREMOTE) && d.router.SessionOf(l.id) != l.log.Session():
		d.lose(l, "the session expired")
	}
	if err != nil || a.Attr.Ino != dir {
		d.answered(l)
		return false
	}
	pages, err := d.carry(ctx, dir)
	return d.adopt(l, &a.Result, pages, err)
}

// askFor returns the command that requests a directory. ok is false if no request is possible now.
func (d *delegations) askFor(l *logOf, dir posix.Ino) (cmd meta.Command, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.ended || l.log.Covers(dir) || l.log.IsReturning(dir) {
		l.asking--
		d.endEmpty(l)
		return cmd, false
	}
	cmd = l.log.Ask(dir, d.wishes.ctime(dir))
	if d.cfg.grants(l.id) == NumberedGrants {
		cmd.Flags = meta.NumberGrant
	}
	return cmd, true
}

// answered ends a request that was not granted.
func (d *delegations) answered(l *logOf) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.asking--
	d.endEmpty(l)
}

// carry fetches a copy of a directory that was granted, in pages.
func (d *delegations) carry(ctx context.Context, dir posix.Ino) (pages [][]byte, err error) {
	c := meta.Command{Op: meta.OpCarry, Ino: dir, Length: carryBytes}
	for carried := 0; carried <= maxCarried; {
		a, err := d.router.Query(ctx, &c, route.Partition(dir.Partition()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, a.Data)
		carried += len(a.Data)
		if c.Offset = a.Number; c.Offset == 0 {
			return pages, nil
		}
	}
	return nil, fmt.Errorf("the directory and its files have more than %d bytes of metadata", maxCarried)
}

// adopt adds a granted directory with its copy to the log. err is the error of carry: then adopt returns the
// directory to the partition.
func (d *delegations) adopt(l *logOf, r *meta.Result, pages [][]byte, err error) (held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.asking--
	if l.ended {
		return false
	}
	if now := posix.Time(varint.NewReader(r.Data).Int()); l.offset == 0 || now > l.now() {
		l.offset, l.began = now, time.Now()
	}
	if r.Number2 != 0 {
		l.log.AddNumbers(posix.Ino(r.Number2))
	}
	dir := r.Attr.Ino
	if !l.log.WasReturned(dir) {
		if err == nil {
			err = l.log.Adopt(dir, pages)
		}
		if held = err == nil; !held {
			d.giveBack(l, []posix.Ino{dir})
			d.notice("adopt", "a directory that this mount could hold exclusively is given back: its content was not received", "directory", dir, "error", err)
		}
	}
	d.endEmpty(l)
	return held
}
