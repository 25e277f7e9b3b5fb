package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The store is synced, and the multicast may then forget what led to it, after so many deliveries or
// so long after one.
const (
	syncEvery = 8192
	syncAfter = 5 * time.Second
)

// maxReap bounds how many inodes one delivery reaps.
const maxReap = 512

// Apply implements turn.Node: it executes the deliveries of a step, in order, commits them and gives the answers. An
// error means that the store failed: the replica must stop; nothing was answered.
func (r *Replica) Apply(out *turn.Output) (replies []turn.Call, err error) {
	deliveries := out.Deliveries
	for i := range deliveries {
		if d := &deliveries[i]; len(d.Dest) > 1 {
			r.queueRelay(d)
		} else {
			replies = r.deliver(d, replies)
		}
	}
	if len(deliveries) > 0 {
		r.savePosition()
		r.sinceSync += len(deliveries)
		if r.syncAt == 0 {
			r.syncAt = r.now.Mono + syncAfter
		}
	}
	sync := r.sinceSync >= syncEvery || r.syncAt != 0 && r.now.Mono >= r.syncAt
	if len(deliveries) == 0 && !sync {
		return nil, nil
	}
	if err := r.keys.Commit(sync); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if sync {
		r.sinceSync, r.syncAt, r.covered, r.crossed = 0, 0, multicast.UpTo(r.position), multicast.UpTo(r.relayed)
	}
	if len(r.behind) > 0 {
		r.pursueNow()
	}
	return r.unpark(replies), r.keys.Err()
}

// deliver executes one delivery; a repeated one is passed over (I1).
func (r *Replica) deliver(d *multicast.Delivery, replies []turn.Call) []turn.Call {
	if d.Position().Compare(r.position) <= 0 {
		return replies
	}
	r.position = d.Position()
	r.vector[r.cfg.Partition].Count++
	r.orderedAt = r.now.Mono
	delete(r.underWay, d.ID)
	mine := r.pending[d.ID]
	if mine != nil {
		r.forgetPending(d.ID, mine, r.pending)
	}
	e, err := decodeEnvelope(d.Payload)
	if err != nil {
		return replies // a proposer of another version: counted, without effect, at each replica alike
	}
	r.time = max(r.time, e.Time)
	switch e.Kind {
	case envelopeRelay:
		return r.executeRelay(&e.Relay, replies)
	case envelopeDecide:
		return r.decide(&e, replies)
	case envelopeForget:
		r.forget(e.Forget)
		return replies
	case envelopeBarrier:
		r.passBarrier(d.ID)
		return replies
	}
	outcome, result := r.effect(&e, mine != nil)
	if mine != nil {
		replies = r.answerAll(mine.tokens, outcome, result, replies)
	}
	return replies
}

// effect executes what was ordered.
func (r *Replica) effect(e *envelope, mine bool) (ask.Outcome, []byte) {
	if e.Kind != envelopeRequest {
		if s := r.sessions[e.Expire.Session]; s != nil && s.renewals == e.Expire.Renewals {
			r.endSession(s)
		}
		r.reap(mine)
		return ask.Answered, nil
	}
	q, err := ask.DecodeRequest(e.Request)
	if err != nil {
		return ask.Refused, []byte(err.Error())
	}
	if q.Vector.Of(r.cfg.Partition).Count >= r.counter() {
		// Whoever has seen a command was answered after it, and asks for something that comes after it.
		return ask.Refused, []byte("the client has seen what this cluster has not: it belongs to another cluster, or to what was there before")
	}
	if q.Kind == ask.OpenSession {
		if _, ended := r.ended[q.Session]; ended {
			return ask.UnknownSession, nil
		}
		return r.openSession(&q, e.Client), nil
	}
	s := r.sessions[q.Session]
	if s == nil || !s.admits(e.Client) {
		return ask.UnknownSession, nil
	}
	switch q.Kind {
	case ask.Update:
		r.observe(q.Vector)
		return r.applyUpdate(s, &q, e)
	case ask.RenewSession:
		r.renewSession(s, &q)
	case ask.CloseSession:
		r.endSession(s)
	}
	r.reap(mine)
	return ask.Answered, nil
}

// observe takes in what a client has seen (T 3.4.1). Of the own partition that may be a command that others have decided and
// this one has not yet: who sees here what follows from that must see it, too.
func (r *Replica) observe(seen ask.Vector) {
	own := r.counter()
	r.vector = r.vector.Merge(seen[:min(len(seen), len(r.vector))])
	r.vector[r.cfg.Partition].Count = own
}

// applyUpdate executes an update once (I2).
func (r *Replica) applyUpdate(s *session, q *ask.Request, e *envelope) (ask.Outcome, []byte) {
	if answer, ok := s.answers[q.Seq]; ok {
		return ask.Answered, answer
	}
	if q.Seq <= s.done {
		return ask.Refused, []byte("update: the client has said that it has the answer")
	}
	c, err := meta.DecodeCommand(q.Command)
	if err != nil || !c.Op.IsUpdate() {
		return ask.Refused, []byte(fmt.Sprintf("update: %v", err))
	}
	c.Time, c.Session, c.Horizon, c.Authority = e.Time, s.id, s.horizon, e.Client.Bounds()
	result := r.machine.Apply(&c, r.counter())
	answer := result.Append(nil)
	r.rememberAnswer(s, q.Seq, q.Done, answer)
	return ask.Answered, answer
}

// reap lets unlinked inodes go that nobody can hold (I4). If there are
// more, whoever proposed this goes on with them.
func (r *Replica) reap(mine bool) {
	seen := r.counter()
	held := map[posix.Ino]bool{}
	for _, s := range r.sessions {
		seen = min(seen, s.seen)
		for _, i := range s.held {
			held[i] = true
		}
	}
	reaped := 0
	for after := posix.Ino(0); reaped < maxReap; {
		orphans := r.machine.Orphans(after, maxReap)
		for _, o := range orphans {
			after = o.Ino
			if o.Counter <= seen && !held[o.Ino] && reaped < maxReap {
				r.machine.Reap(o.Ino, r.time)
				reaped++
			}
		}
		if len(orphans) < maxReap {
			break
		}
	}
	if reaped == maxReap && mine {
		r.followUp = true
	}
}

// savePosition stores what I1 speaks of.
func (r *Replica) savePosition() {
	b := ask.AppendPosition(ask.AppendPosition(nil, r.position), r.relayed)
	b = varint.AppendUint(b, r.crossings)
	b = varint.AppendInt(b, int64(r.time))
	r.keys.Set(positionKey, r.vector.Append(b))
}

// progress is how far the state of a replica has come.
type progress struct {
	local, relayed multicast.Position
	crossings      uint64
	time           posix.Time
	vector         ask.Vector
}

// Positions reads how far the state in keys has come in the order of the partition, and in the one between partitions: what
// cores made for it must deliver from there on.
func Positions(keys meta.Keys) (local, cross multicast.Position, err error) {
	p, err := loadPosition(keys)
	return p.local, p.relayed, err
}

// StoredVector reads what the state in keys has seen of all partitions.
func StoredVector(keys meta.Keys) (ask.Vector, error) {
	p, err := loadPosition(keys)
	return p.vector, err
}

func loadPosition(keys meta.Keys) (p progress, err error) {
	b := keys.Get(positionKey)
	if b == nil {
		return p, nil
	}
	rd := varint.NewReader(b)
	p.local, p.relayed, p.crossings = ask.ReadPosition(rd), ask.ReadPosition(rd), rd.Uint64()
	p.time, p.vector = posix.Time(rd.Int()), ask.ReadVector(rd)
	if err := rd.Done(); err != nil {
		return p, fmt.Errorf("stored position: %w", err)
	}
	return p, nil
}

// load reads position and sessions from the store.
func (r *Replica) load() error {
	p, err := loadPosition(r.keys)
	if err != nil {
		return err
	}
	r.position, r.relayed, r.crossings, r.time = p.local, p.relayed, p.crossings, p.time
	r.vector = make(ask.Vector, max(int(r.cfg.Partition)+1, len(p.vector), len(r.cfg.Groups)))
	copy(r.vector, p.vector)
	if err := r.loadCoordinated(); err != nil {
		return err
	}
	if err := r.loadSessions(); err != nil {
		return err
	}
	invariant.Check(r.counter() > 0 || len(r.sessions) == 0, "partition %d: %d sessions before the first delivery", r.cfg.Partition, len(r.sessions))
	return nil
}
