package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// send sends the batches of a log until it ends.
func (d *delegations) send(life context.Context, l *logOf) {
	for {
		select {
		case <-l.work:
		case <-life.Done():
			return
		}
		d.collect(life, l)
		for d.sendNext(life, l) {
		}
		d.mu.Lock()
		ended := l.ended
		d.mu.Unlock()
		if ended {
			return
		}
	}
}

// collect waits for more operations, unless a caller waits for the log.
func (d *delegations) collect(life context.Context, l *logOf) {
	d.mu.Lock()
	waiting := l.waiters > 0
	d.mu.Unlock()
	if waiting {
		return
	}
	timer := time.NewTimer(batchDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hurry:
	case <-life.Done():
	}
}

// sendNext sends one batch until it is answered, and reports whether there is another one to send at once.
func (d *delegations) sendNext(life context.Context, l *logOf) bool {
	d.mu.Lock()
	x, ok := l.log.Next()
	ended := l.ended
	d.mu.Unlock()
	if !ok || ended {
		return false
	}
	c := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
	a, err := d.router.Update(life, &c, route.Partition(l.id).Under(l.log.Session()))
	var done delegation.Done
	if err == nil {
		done, err = delegation.DecodeDone(a.Data)
	}
	switch {
	case err == nil:
		return d.acknowledge(life, l, &done)
	case errors.Is(err, posix.EREMOTE):
		d.lose(l, "the session expired")
		return false
	case a.Refused:
		d.lose(l, "a server refused the batch")
		return false
	}
	return pause.For(life, batchAgain) == nil
}

// acknowledge applies the answer to a batch.
func (d *delegations) acknowledge(life context.Context, l *logOf, done *delegation.Done) (more bool) {
	d.mu.Lock()
	ops, on := l.log.Acknowledge(done)
	d.journal.Acknowledge(idOf(l), l.log.Acknowledged())
	d.release(ops)
	if slices.ContainsFunc(ops, func(o delegation.Op) bool { return o.Return != 0 }) || l.log.Len() == 0 {
		d.freed.Add(1)
	}
	l.oldest = time.Now()
	close(l.moved)
	l.moved = make(chan struct{})
	more = l.log.Len() > 0 && (l.waiters > 0 || l.log.Len() >= delegation.MaxOps)
	if l.log.Len() > 0 {
		signal(l.work)
	}
	needs, large := l.log.NeedsNumbers(), l.log.IsLarge()
	if on && large {
		l.log.Reap(d.router.IsHeld, l.now())
		if l.log.IsLarge() {
			d.giveBack(l, l.log.Dirs())
		}
	}
	if on {
		d.endEmpty(l)
	}
	d.mu.Unlock()
	if !on {
		reason := "the partition has another state than this mount"
		if done.Code != posix.OK {
			reason = done.Code.Error()
		}
		d.lose(l, reason)
		return false
	}
	if needs && !large {
		if err := d.refill(life, l); err != nil && life.Err() == nil {
			d.notice("numbers", "a partition gives no inode numbers to this mount: creates wait for the next try", "partition", l.id, "error", err)
		}
	}
	return more
}

// hear returns directories that are recalled, until the log ends.
func (d *delegations) hear(life context.Context, l *logOf) {
	w := ask.Watching{Linger: recallLinger, Recalls: true}
	for life.Err() == nil {
		d.mu.Lock()
		ended := l.ended
		d.mu.Unlock()
		if ended {
			return
		}
		x, err := d.router.Watch(life, l.id, &w)
		if err != nil {
			_ = pause.For(life, watchAgain) // the loop checks life
			continue
		}
		w.History, w.From, w.Mark = x.History, x.To, x.Mark
		if len(x.Recalled) == 0 {
			continue
		}
		d.counts.recalls.Add(uint64(len(x.Recalled)))
		d.mu.Lock()
		if !l.ended {
			d.giveBack(l, x.Recalled)
		}
		last := l.log.Last()
		d.mu.Unlock()
		_ = d.wait(life, l, last) // the loop checks life
	}
}
