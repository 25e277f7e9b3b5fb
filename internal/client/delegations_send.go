package client

import (
	"context"
	"errors"
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
		for d.launch(l) {
		}
		if d.isOver(l) {
			return
		}
	}
}

// launch sends the next batch, and reports whether it has sent one. While other batches are under way, it
// sends a batch only if the batch is full, or if it is due and has an operation for which a caller waits.
func (d *delegations) launch(l *logOf) bool {
	d.mu.Lock()
	_, enough := l.log.Unsent()
	waited := l.wanted > l.log.Sent()
	switch {
	case l.ended, l.log.Flying() > 0 && !enough && !waited:
		d.mu.Unlock()
		return false
	case waited && l.due() > 0:
		d.mu.Unlock()
		signal(l.work) // the sender waits again until the batch is due
		return false
	}
	x, ok := l.log.Next()
	c := meta.Command{Op: meta.OpBatch}
	if x.First <= l.onDisk && l.onDisk < x.First+uint64(len(x.Ops)) {
		c.Flags = meta.OnDisk // the answer also covers all earlier batches
	}
	if ok {
		l.pace.launched(len(x.Ops))
	}
	d.mu.Unlock()
	if !ok {
		return false
	}
	begun := make(chan struct{})
	d.router.Go(func(life context.Context) {
		close(begun)
		d.fly(life, l, &x, c)
	})
	<-begun // batches are first sent in their order
	return true
}

// fly sends a batch repeatedly until all its operations are acknowledged, or the log has ended.
func (d *delegations) fly(life context.Context, l *logOf, x *delegation.Batch, c meta.Command) {
	c.Data = x.Append(nil)
	for life.Err() == nil && !d.isOver(l) {
		a, err := d.router.Update(life, &c, route.Partition(l.id).Under(l.log.Session()))
		var done delegation.Done
		if err == nil {
			done, err = delegation.DecodeDone(a.Data)
		}
		switch {
		case err == nil:
			if done.OnDisk != 0 {
				route.OnDisk(d.router, l.id, a.Seen.History, done.OnDisk)
			}
			if d.acknowledge(life, l, x, &done) {
				return
			}
			d.awaitTurn(life, l, x)
			continue
		case errors.Is(err, posix.EREMOTE):
			d.lose(l, "the session expired")
			return
		case a.Refused:
			d.lose(l, "a server refused the batch")
			return
		}
		_ = pause.For(life, batchAgain) // the loop checks life
	}
}

// isOver reports whether a log has ended.
func (d *delegations) isOver(l *logOf) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.ended
}

// awaitTurn waits, for batchAgain at most, until all earlier batches are acknowledged. It is called after a
// batch has overtaken an earlier one, and so has had no effect.
func (d *delegations) awaitTurn(life context.Context, l *logOf, x *delegation.Batch) {
	ctx, cancel := context.WithTimeout(life, batchAgain)
	defer cancel()
	for ctx.Err() == nil {
		d.mu.Lock()
		moved, due := l.moved, l.ended || l.log.Acknowledged()+1 >= x.First
		d.mu.Unlock()
		if due {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// acknowledge applies the answer to a batch. over means that the batch must not be sent again.
func (d *delegations) acknowledge(life context.Context, l *logOf, x *delegation.Batch, done *delegation.Done) (over bool) {
	d.mu.Lock()
	if l.ended {
		d.mu.Unlock()
		return true
	}
	ops, on := l.log.Acknowledge(done)
	d.journal.Acknowledge(idOf(l), l.log.Acknowledged())
	over = l.log.Landed(x)
	d.release(ops)
	d.noteReleased(l)
	if len(ops) > 0 {
		l.oldest = time.Now()
		close(l.moved)
		l.moved = make(chan struct{})
	}
	if l.log.Len() > 0 {
		signal(l.hurry)
		signal(l.work)
	}
	large := l.log.IsLarge()
	needs := l.log.NeedsNumbers() && !large && !l.refilling
	l.refilling = l.refilling || needs
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
		return true
	}
	if needs {
		d.refillEarly(life, l)
	}
	return over
}

// refillEarly requests inode numbers before the log has used all of them, so that creates need not wait.
func (d *delegations) refillEarly(life context.Context, l *logOf) {
	if err := d.refill(life, l); err != nil && life.Err() == nil {
		d.notice("numbers", "a partition gives no inode numbers to this mount: creates wait for the next try", "partition", l.id, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l.refilling = false
}

// watchRecalls watches for recalls, and returns the recalled directories, until the log ends.
func (d *delegations) watchRecalls(life context.Context, l *logOf) {
	w := ask.Watching{Linger: recallLinger, Recalls: true}
	for life.Err() == nil {
		if d.isOver(l) {
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
		d.wishes.recalled(x.Recalled)
		if !l.ended {
			d.giveBack(l, x.Recalled)
		}
		last := l.log.Last()
		d.mu.Unlock()
		_ = d.wait(life, l, last) // the loop checks life
	}
}
