package replica

import (
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// What the order between partitions delivers is relayed into the partition's own order, by the leader, or by
// others if that takes long. A relay names the one before it and counts only behind that, so all
// replicas execute them in the order between partitions, however often and by whomever they are proposed.

// How long others leave to the leader what any replica can do, the next one by index longer; and after
// how long a leader does it again.
const (
	leaveToLeader = time.Second
	stagger       = 300 * time.Millisecond
)

// maxPosts bounds the posts that are under way.
const maxPosts = 64

// waiting is a delivery that is not relayed yet.
type waiting struct {
	at       place
	dest     []uint16
	payload  []byte
	proposed multicast.MessageID
}

// queueRelay takes a delivery of the order between partitions.
func (r *Replica) queueRelay(d *multicast.Delivery) {
	delete(r.underWay, d.ID)
	last := r.relayed
	if n := len(r.relays); n > 0 {
		last = r.relays[n-1].at
	}
	if d.Position().Compare(last) <= 0 {
		return
	}
	w := waiting{at: d.Position(), payload: d.Payload}
	for _, g := range d.Dest {
		w.dest = append(w.dest, uint16(g))
	}
	if len(r.relays) == 0 {
		r.relayRetryAt = r.patience()
	}
	r.relays = append(r.relays, w)
	r.pursueNow()
}

// patience is until when this replica leaves something to the leader.
func (r *Replica) patience() time.Duration {
	return r.now.Mono + leaveToLeader + stagger*time.Duration(r.cfg.Index)
}

// pursueRelays proposes relays that are not under way.
func (r *Replica) pursueRelays(leads bool) {
	if len(r.relays) == 0 {
		return
	}
	if r.now.Mono >= r.relayRetryAt {
		leads = true // nobody else has done it
		r.relayRetryAt = r.patience()
	}
	r.pursueBy(r.relayRetryAt)
	if !leads {
		return
	}
	prev := r.relayed
	for i := range r.relays {
		w := &r.relays[i]
		if !r.underWay[w.proposed] {
			w.proposed = r.order(envelope{Kind: envelopeRelay, Relay: relay{Prev: prev, At: w.at, Dest: w.dest, Payload: w.payload}})
		}
		prev = w.at
	}
}

// order multicasts what this replica itself wants in the order of the partition. As long as it is under way it is not
// proposed again: a core loses nothing that it was given.
func (r *Replica) order(e envelope) multicast.MessageID {
	id := r.multicast(e)
	r.underWay[id] = true
	return id
}

// executeRelay executes what was relayed, if it is its turn.
func (r *Replica) executeRelay(d *relay, replies []turn.Call) []turn.Call {
	if d.Prev != r.relayed || d.At.Compare(r.relayed) <= 0 {
		return replies
	}
	r.relayed = d.At
	for len(r.relays) > 0 && r.relays[0].at.Compare(d.At) <= 0 {
		r.relays = r.relays[1:]
		r.relayRetryAt = r.patience()
	}
	e, err := decodeEnvelope(d.Payload)
	if err != nil {
		return replies // a proposer of another version: without effect, at each party alike
	}
	r.time = max(r.time, e.Time)
	switch e.Kind {
	case envelopeCommand:
		return r.prepare(&e, d, replies)
	case envelopePost:
		r.executePost(&e)
	}
	return replies
}

// executePost takes a post out of the outbox here, or executes it where it was sent to.
func (r *Replica) executePost(e *envelope) {
	if e.From == r.cfg.Partition {
		r.machine.Posted(e.Number)
		delete(r.posted, e.Number)
		return
	}
	c, err := meta.DecodeCommand(e.Command)
	if err != nil {
		return
	}
	c.Time = e.Time
	r.observe(e.Vector) // what it tells of follows from that
	r.machine.Apply(&c, r.counter())
}

// sawCross notes that what is here follows from what another partition has executed up to a place.
func (r *Replica) sawCross(partition uint16, at place) {
	if partition != r.cfg.Partition && int(partition) < len(r.vector) && at.Compare(r.vector[partition].Cross) > 0 {
		r.vector[partition].Cross = at
	}
}

// pursuePosts multicasts what the metadata wants other partitions to know.
func (r *Replica) pursuePosts(leads bool) {
	posts := r.machine.Outbox(maxPosts)
	if len(posts) == 0 {
		r.postRetryAt = 0
		return
	}
	if r.postRetryAt == 0 {
		r.postRetryAt = r.patience()
	}
	if r.now.Mono >= r.postRetryAt {
		leads = true // nobody else has done it
		r.postRetryAt = r.patience()
	}
	r.pursueBy(r.postRetryAt)
	if !leads {
		return
	}
	for i := range posts {
		p := &posts[i]
		parties := []uint16{r.cfg.Partition, p.To}
		if r.underWay[r.posted[p.Number]] || !r.inReachOrAsk(parties) {
			continue
		}
		id := r.send(parties, envelope{
			Kind: envelopePost, From: r.cfg.Partition, Number: p.Number, Vector: r.vector, Command: p.Command.Append(nil),
		})
		r.posted[p.Number], r.underWay[id] = id, true
	}
}

// send hands an envelope to the order between partitions in this step.
func (r *Replica) send(dest []uint16, e envelope) multicast.MessageID {
	r.seq++
	e.Time = posix.Time(r.now.Wall)
	m := multicast.Message{ID: multicast.MessageID{Sender: r.cfg.Self, Seq: r.seq}, Payload: e.encode()}
	for _, p := range dest {
		m.Dest = append(m.Dest, multicast.GroupID(p))
	}
	if len(m.Dest) == 2 && m.Dest[0] > m.Dest[1] {
		m.Dest[0], m.Dest[1] = m.Dest[1], m.Dest[0]
	}
	r.cores.crossIn.Proposed = append(r.cores.crossIn.Proposed, m)
	return m.ID
}
