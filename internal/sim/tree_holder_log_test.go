package sim

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/delegate"
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// The log of a holder and its requests: batches, recalls, returned directories.

// renew renews the session in each partition. If the one in the partition of the log has ended, the log is
// lost.
func (h *holder) renew() {
	before := h.session()
	h.c.renew()
	if h.session() != before {
		h.c.run.reach[holderExpired]++
		h.lose()
	}
}

// send sends an update, again and again, and calls done with the result; false: the session has ended.
func (h *holder) send(command meta.Command, dest []uint16, done func(meta.Result, bool)) {
	c, p := h.c, heldPartition
	c.seq[p]++
	q := ask.Request{Kind: ask.Update, Session: c.session[p], Seq: c.seq[p], Dest: dest, Command: command.Append(nil)}
	h.try(q, 0, done)
}

func (h *holder) try(q ask.Request, tries int, done func(meta.Result, bool)) {
	c, net := h.c, h.c.run.net
	if tries > 0 && q.Dest == nil {
		c.run.reach[batchAgain]++
	}
	q.Proofs = c.proofs
	again := func() {
		net.Schedule(net.Now()+net.between(0, 100*time.Millisecond), func() { h.try(q, tries+1, done) })
	}
	net.Call(c.run.groups[heldPartition].nearby(c), turn.Call{Data: q.Append(nil)}, net.between(200*time.Millisecond, 2*time.Second), func(b []byte, arrived bool) {
		reply, err := ask.DecodeReply(b)
		switch {
		case !arrived:
			again()
			return
		case err == nil && (reply.Status == ask.Overloaded || reply.Status == ask.Replaced):
			again()
			return
		case err == nil && reply.Status == ask.UnknownSession:
			done(meta.Result{}, false)
			return
		case err != nil || reply.Status != ask.Answered:
			c.run.fail("client %d: update: status %d %q %v", c.id, reply.Status, reply.Result, err)
			return
		}
		c.adopt(ask.Proof{Vector: reply.Vector, Tag: reply.Tag})
		m, err := meta.DecodeResult(reply.Result)
		if err != nil {
			c.run.fail("client %d: %w", c.id, err)
			return
		}
		done(m, true)
	})
}

// update calls send in the coroutine of the client.
func (h *holder) update(command meta.Command, dest ...uint16) (r meta.Result, ok bool) {
	h.c.await(func() {
		h.send(command, dest, func(m meta.Result, known bool) {
			r, ok = m, known
			h.c.resume()
		})
	})
	if !ok {
		h.renew()
	}
	return r, ok
}

// flush sends the next batch, if there is room for it.
func (h *holder) flush() {
	if h.deaf {
		return
	}
	if x, ok := h.log.Next(); ok {
		if h.log.Flying() > 1 {
			h.c.run.reach[severalBatches]++
		}
		for i := range x.Ops {
			if _, waits := h.blocks[x.First+uint64(i)]; waits {
				h.c.run.fail("L7: client %d sends operation %d without its block", h.c.id, x.First+uint64(i))
			}
		}
		h.fly(h.log, h.history, x)
	}
}

// fly sends a batch until all of its operations are acknowledged.
func (h *holder) fly(log *delegate.Log, history *logHistory, x delegation.Batch) {
	if h.log != log {
		return // lost meanwhile
	}
	command := meta.Command{Op: meta.OpBatch, Data: x.Append(nil)}
	if x.First%2 == 0 {
		command.Flags = meta.OnDisk // replicas record the same answer with it, and without
	}
	h.send(command, nil, func(m meta.Result, known bool) {
		if h.log != log {
			h.flush()
			return
		}
		done, err := delegation.DecodeDone(m.Data)
		if !known {
			h.wake() // the next renewal finds out
			return
		}
		if err != nil {
			h.c.run.fail("client %d: %w", h.c.id, err)
			return
		}
		ops, on := log.Acknowledge(&done)
		history.acknowledged += len(ops)
		if len(ops) > 0 {
			h.acked = ops
		}
		switch {
		case !on:
			h.all.stopped(h, &done)
			h.lose()
			return
		case !log.Landed(&x):
			h.c.run.reach[batchEarly]++
			net := h.c.run.net
			net.Schedule(net.Now()+net.between(0, 50*time.Millisecond), func() { h.fly(log, history, x) })
		}
		h.wake()
		h.flush()
	})
}

// wake lets the callers go on that wait no longer.
func (h *holder) wake() {
	waiting := h.waiting
	h.waiting = nil
	for _, over := range waiting {
		if !over() {
			h.waiting = append(h.waiting, over)
		}
	}
}

// drain returns when all operations of the log are acknowledged or lost.
func (h *holder) drain() {
	for h.log.Len() > 0 {
		h.flush()
		h.c.pause(h.c.run.net.between(time.Millisecond, 50*time.Millisecond))
		h.c.accept()
		if h.c.renewsNow() || h.c.pick(10) == 0 {
			h.renew()
		}
	}
}

func (h *holder) giveBack(dirs []posix.Ino) {
	for range dirs {
		h.history.ops = append(h.history.ops, loggedOp{})
	}
	h.log.Return(dirs)
}
