package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/reads"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The store is synced after syncEvery deliveries, and at the latest syncAfter after a delivery. Then the
// orders may forget the messages of these deliveries.
const (
	syncEvery = 8192
	syncAfter = 5 * time.Second
)

// Executed deliveries are committed to the store when they have written commitBytes bytes, and at the
// latest after commitAfter. So one commit serves several turns, and a key that several turns write is
// written once. A crash loses nothing: the log has the entries that the store lacks, and the orders deliver
// them again. Until then the restarted replica shows new clients the older state of the store, so
// commitAfter is short.
const (
	commitBytes = 256 << 10
	commitAfter = 10 * time.Millisecond
)

// Syncs implements turn.Node.
func (r *Replica) Syncs(out *turn.Output) bool {
	p := &r.progress
	return p.sinceSync+len(out.Deliveries) >= syncEvery || p.syncAt != 0 && r.now.Mono >= p.syncAt
}

// Apply executes the deliveries of a step, in order, and returns replies. The driver calls it in every turn,
// after the records of the step are durable. It commits to the store from time to time, always between two
// deliveries. After an error nothing was answered, and the replica must stop.
func (r *Replica) Apply(out *turn.Output) (replies []turn.Call, err error) {
	p := &r.progress
	sync := r.Syncs(out)
	for i := range out.Deliveries {
		d := &out.Deliveries[i]
		r.orders.Delivered(d.ID)
		if order.IsBetween(d) {
			r.orders.LearnBackup(order.BackupOf(d.Payload))
			r.cross.Relay(d)
		} else if replies, err = r.deliver(d, replies); err != nil {
			return nil, fmt.Errorf("entry %d of the order of partition %d, message %v: %w", r.cross.Count(), r.cfg.Partition, d.ID, err)
		}
	}
	if len(out.Deliveries) > 0 {
		r.save()
		p.sinceSync += len(out.Deliveries)
		if p.syncAt == 0 {
			p.syncAt = r.now.Mono + syncAfter
		}
		if p.commitAt == 0 {
			p.commitAt = r.now.Mono + commitAfter
		}
	}
	if sync || p.commitAt != 0 && (r.keys.Pending() >= commitBytes || r.now.Mono >= p.commitAt) {
		p.commitAt = 0
		if err := r.keys.Commit(sync); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	if len(out.Deliveries) == 0 && !sync {
		return nil, r.keys.Err()
	}
	if sync {
		p.sinceSync, p.syncAt = 0, 0
		r.cover()
	}
	r.cross.Executed()
	ended := r.delegations.TakeEnded()
	if (r.cross.Changed() || len(ended) > 0) && len(r.updates.blocked) > 0 {
		r.updates.resume = true
	}
	r.queries.Returned(ended)
	r.progress.reaper.learn(r.machine)
	replies = r.lockWaits.answer(meta.TakeReleased(r.machine), r.now.Mono, r.answerReady(replies))
	return r.watches.answerNew(replies), r.keys.Err()
}

// deliver executes a delivery of the partition's own order. It skips a repeated delivery (I1).
func (r *Replica) deliver(d *multicast.Delivery, replies []turn.Call) ([]turn.Call, error) {
	p := &r.progress
	if d.Position().Compare(p.position) <= 0 {
		return replies, nil
	}
	asked := r.updates.delivered(d.ID)
	e, err := order.DecodeEntry(d.Payload)
	if err != nil {
		return replies, err
	}
	if err := r.mark(&e); err != nil {
		return replies, err
	}
	e.Durable = d.Durable
	p.position, p.orderedAt = d.Position(), r.now.Mono
	before := p.time
	p.time = max(p.time, e.Time)
	r.cross.Advance(e.Time)
	a, err := r.executeEntry(&e, d.ID)
	r.cross.EndEntry()
	r.watches.note(r.cross.Own(), markOf(p.position), a.session)
	if err == nil && r.isDigested(before) {
		r.takeDigest(d.ID)
	}
	switch {
	case err != nil:
		return replies, err
	case asked != nil && a.outcome == ask.Overloaded: // the update met a hold: it waits until the hold is released
		if len(asked.tokens) > 0 {
			r.updates.blocked = append(r.updates.blocked, asked)
			r.updates.resume = true
		}
	case asked != nil:
		for _, token := range asked.tokens {
			replies = append(replies, r.replyTo(&asked.query, token, a.outcome, a.result))
		}
	}
	for _, q := range a.unseen {
		replies = append(replies, r.reply(q.Call.Token, ask.Unseen, nil))
	}
	return r.answers(replies), nil
}

// effect is the result of the execution of an entry. The calls that wait for the entry get it.
type effect struct {
	outcome ask.Outcome // of a client's request; Overloaded: it met a hold, and nothing was executed
	result  []byte
	session uint64         // the session of an update
	unseen  []*reads.Query // queries of clients with a vector that counts entries which do not exist
}

// executeEntry executes an entry. An error means that the entry was made by an incompatible version.
func (r *Replica) executeEntry(e *order.Entry, id multicast.MessageID) (a effect, err error) {
	mine := id.Sender == r.cfg.Self
	switch {
	case cross.IsEntry(e.Kind):
		err = r.cross.Execute(e)
	case e.Kind == entryRequest:
		a, err = r.executeRequest(e, id)
	case e.Kind == entryExpire:
		var x session.Expiry
		if x, err = decodeExpiry(e.Body); err == nil && r.sessions.IsSilent(x) {
			r.endSession(x.Session)
		}
		r.reap(mine)
	case e.Kind == entryReap:
		r.reap(mine)
	case e.Kind == entryBarrier:
		a.unseen, err = r.passBarrier(e, id)
	case e.Kind == entryMarker:
		err = r.passMarker(e)
	case e.Kind == entryShards:
		err = r.shards.add(e.Body)
	case e.Kind == entryRevoke:
		err = r.delegations.executeRevoke(e.Body)
	case e.Kind == entryRecall:
		err = r.delegations.executeRecall(e.Body)
	default:
		err = fmt.Errorf("kind %d: %w", e.Kind, order.ErrVersion)
	}
	return a, err
}

// passBarrier executes a barrier. It returns the queries of this replica whose clients' vectors count entries
// that do not exist.
func (r *Replica) passBarrier(e *order.Entry, id multicast.MessageID) ([]*reads.Query, error) {
	b := varint.NewReader(e.Body)
	proven := ask.ReadSeen(b)
	if err := b.Done(); err != nil {
		return nil, fmt.Errorf("barrier: %w: %w", err, order.ErrVersion)
	}
	r.cross.Doubt(proven, id)
	return r.queries.Pass(id), nil
}

// executeRequest executes a client's request.
func (r *Replica) executeRequest(e *order.Entry, id multicast.MessageID) (a effect, err error) {
	q, from, err := decodeRequest(e.Body)
	if err != nil {
		return a, fmt.Errorf("request: %w: %w", err, order.ErrVersion)
	}
	mine, seen := id.Sender == r.cfg.Self, q.Reader(r.cfg.Partition).Count
	switch {
	case r.cross.IsFalse(&q, id):
		a.outcome = ask.Unseen
	case q.Kind == ask.OpenSession:
		a.outcome = r.sessions.Open(q.Session, seen, from, r.now.Mono)
	case !r.sessions.Has(q.Session, from):
		a.outcome = ask.UnknownSession
	case q.Kind == ask.Update:
		return r.applyUpdate(&q, from, e)
	case q.Kind == ask.RenewSession:
		r.sessions.Renew(q.Session, session.Renewal{Seen: seen, Held: q.Held, Horizon: q.Horizon}, r.now.Mono)
		r.cross.Observe(q.Vector)
		r.reap(mine)
	case q.Kind == ask.CloseSession:
		r.endSession(q.Session)
		r.cross.Observe(q.Vector)
		r.reap(mine)
	}
	return a, nil
}

// applyUpdate executes an update unless it was executed before (I2).
func (r *Replica) applyUpdate(q *ask.Request, from *ask.Client, e *order.Entry) (a effect, err error) {
	u := session.Update{Session: q.Session, Seq: q.Seq, Done: q.Done}
	if v := r.sessions.Admit(u, from); !v.Execute {
		return effect{outcome: v.Outcome, result: v.Answer}, nil
	}
	c, err := meta.DecodeCommand(q.Command)
	if err != nil || !c.Op.IsUpdate() {
		return a, fmt.Errorf("update: operation %d: %w: %w", c.Op, err, order.ErrVersion)
	}
	c.Time, c.Session, c.Authority, c.Client = e.Time, q.Session, from.Bounds(), from.Owner()
	c.Horizon, _ = r.sessions.Horizon(q.Session)
	if r.cross.Awaits(q.Reader(r.cfg.Partition), &c) {
		return effect{outcome: ask.Overloaded}, nil
	}
	result, err := r.change(&c)
	if err != nil {
		return a, fmt.Errorf("update: %w: %w", err, order.ErrVersion)
	}
	if result.Code == posix.EHELD {
		return effect{outcome: ask.Overloaded}, nil
	}
	r.cross.Observe(q.Vector)
	answer := result.Append(nil)
	r.sessions.Record(u, answer)
	if e.Durable && wantsDisk(&c) {
		answer = withPlace(&c, result, r.cross.Count())
	}
	return effect{outcome: ask.Answered, result: answer, session: q.Session}, nil
}

// change executes an update of the tree. With EHELD it has changed nothing, and the update must wait.
func (r *Replica) change(c *meta.Command) (meta.Result, error) {
	switch {
	case isDelegating(c.Op) && c.Authority != nil:
		return meta.Result{Code: posix.EOPNOTSUPP}, nil
	case c.Op == meta.OpBatch:
		return r.delegations.executeBatch(c, c.Time, r.cross.Count())
	case c.Op == meta.OpDelegate && c.Name == "" && c.Ino != 0:
		return r.delegations.answer(c, r.cross.Count()), nil
	case c.Op == meta.OpDelegate && c.Name == "":
		var numbers meta.Result
		r.delegations.delegate(c, &numbers)
		return numbers, nil
	}
	update := c
	if c.Op == meta.OpDelegate {
		made := *c
		plain(&made)
		update = &made
	}
	if result, stops := r.delegations.recall(update); stops {
		return result, nil
	}
	result := r.machine.Apply(update, r.cross.Count())
	if c.Op == meta.OpDelegate {
		r.delegations.delegate(c, &result)
	}
	return result, nil
}

// endSession ends a session, and releases the inodes that the session held.
func (r *Replica) endSession(id uint64) {
	if !r.sessions.Has(id, nil) {
		return
	}
	r.sessions.End(id, r.progress.time)
	r.machine.EndSession(id)
	r.delegations.EndSession(id)
}
