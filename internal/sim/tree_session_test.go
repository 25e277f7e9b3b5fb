package sim

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Sessions end when their client was silent, or not heard, for the length of the lease. Then the partition forgets the answers
// that it kept for the session: an update whose answer had not arrived is in doubt. It may have been
// executed; if it is one of several partitions that votes, it may still be. Its client goes on with a new session and
// never learns; the judge does, from what replicas store.

// openSession opens a new session in a partition. One that ends before its client hears of it is not opened again.
func (c *treeClient) openSession(p uint16) {
	for opened := false; !opened; {
		c.run.session++
		c.session[p], c.lastBlock[p] = c.run.session, 0
		opened = c.exchange(p, ask.Request{Kind: ask.OpenSession, Session: c.session[p]})
	}
}

// expired goes on after the end of the session in a partition: what was held open there may be gone.
func (c *treeClient) expired(p uint16) {
	c.run.reach[sessionExpired]++
	c.held = slices.DeleteFunc(slices.Clone(c.held), func(ino posix.Ino) bool { return ino.Partition() == p })
	c.openSession(p)
}

// renewsNow reports whether it is time, most times when it is.
func (c *treeClient) renewsNow() bool {
	return c.run.lease != 0 && c.run.net.Now()-c.renewed > c.run.lease/3 && c.pick(3) > 0
}

// renew tells all partitions what is held open.
func (c *treeClient) renew() {
	c.renewed = c.run.net.Now()
	for i := range treeGroups {
		p := uint16(i)
		q := ask.Request{Kind: ask.RenewSession, Session: c.session[p], Horizon: c.horizon(p)}
		for _, ino := range c.held {
			if ino.Partition() == p {
				q.Held = append(q.Held, ino)
			}
		}
		if !c.exchange(p, q) {
			c.expired(p)
		}
	}
}

// exchange sends a request about the session; false if the partition does not know it.
func (c *treeClient) exchange(p uint16, q ask.Request) bool {
	reply, asked := c.call(p, q)
	c.run.history.add(happening{kind: learns, client: c.id, partition: p, count: reply.Vector.Of(p).Count, asked: asked})
	return reply.Status == ask.Answered
}

// noAnswer is when an update is answered that never is.
const noAnswer = math.MaxInt

// doubt is the outcome of an update whose session has ended.
func (c *treeClient) doubt(u *change, reply *ask.Reply, asked int) meta.Result {
	u.doubt, u.answered = true, noAnswer
	c.run.history.add(happening{kind: learns, client: c.id, partition: u.asked, count: reply.Vector.Of(u.asked).Count, asked: asked})
	c.expired(u.asked)
	return meta.Result{Code: posix.EIO}
}

// inDoubt gives updates that were in doubt the result that replicas have noted, and reports those that had none.
func (r *tree) inDoubt(u *change) bool {
	switch {
	case !u.doubt:
		return false
	case u.at == 0:
		r.reach[neverHappened]++
		return true
	}
	u.result = u.observed
	r.reach[happenedUnanswered]++
	if u.gaveUp && u.withdrew {
		r.reach[withdrawnDone]++
	}
	if u.gaveUp && u.result.Code == posix.OK {
		r.reach[cameLate]++
	}
	return false
}

// envelopeDecide is the kind of a message that decides a command of several partitions.
const envelopeDecide = 5

// applyForetold applies deliveries. The outcome of a command of several partitions whose session ends between its votes and their
// joining is stored nowhere: it is found out beforehand, on a copy.
func (n *treeNode) applyForetold(out *turn.Output) ([]turn.Call, error) {
	if n.run.lease == 0 {
		return n.Replica.Apply(out)
	}
	var answers []turn.Call
	rest := *out
	for i := range out.Deliveries {
		at, votes, ok := decision(&out.Deliveries[i])
		if !ok {
			continue
		}
		done := len(out.Deliveries) - len(rest.Deliveries)
		before := rest
		before.Deliveries, rest.Deliveries = out.Deliveries[done:i], out.Deliveries[i:]
		first, err := n.Replica.Apply(&before)
		if err != nil {
			return nil, err
		}
		answers = append(answers, first...)
		n.foretell(at, votes)
	}
	last, err := n.Replica.Apply(&rest)
	return append(answers, last...), err
}

// decision reads what d decides, if it is in the order of a partition and decides something.
func decision(d *multicast.Delivery) (at multicast.Position, votes [][]byte, ok bool) {
	r := varint.NewReader(d.Payload)
	_ = r.Int()
	if len(d.Dest) != 1 || r.Uint8() != envelopeDecide {
		return at, nil, false
	}
	at = ask.ReadPosition(r)
	for count := r.Count(); count > 0 && r.Err() == nil; count-- {
		votes = append(votes, r.Bytes())
	}
	return at, votes, r.Done() == nil
}

// foretell notes what the next delivery, a decision, does if the session of its command has ended.
func (n *treeNode) foretell(at multicast.Position, votes [][]byte) {
	for key, value := range n.keys.Scan([]byte{coordinatedKeys}, []byte{coordinatedKeys + 1}) {
		s := readSeveral(value)
		if s.place != at || s.decided || s.name.partition != n.partition || n.keys.Get(sessionKey(s.name.session)) != nil {
			continue
		}
		result, err := n.decideCopy(binary.BigEndian.Uint64(key[1:]), openVotes(votes))
		if err != nil {
			n.run.fail("the state of replica %d cannot be copied: %w", n.self, err)
			return
		}
		n.run.reach[decidedSessionless]++
		n.takesEffect(s.name, n.count()+1, result)
		return
	}
}

// decideCopy decides a command on a copy of the replica's state.
func (n *treeNode) decideCopy(number uint64, votes [][]byte) (meta.Result, error) {
	var state bytes.Buffer
	if err := meta.Snapshot(n.keys, &state); err != nil {
		return meta.Result{}, err
	}
	keys := kv.NewMemory()
	if err := meta.Restore(keys, &state); err != nil {
		return meta.Result{}, err
	}
	machine, err := meta.New(keys, treeMeta(n.partition))
	if err != nil {
		return meta.Result{}, err
	}
	return machine.Decide(number, votes, n.count()+1), nil
}

// openVotes gives what a machine needs of votes; nothing if some party has refused.
func openVotes(all [][]byte) (votes [][]byte) {
	for _, v := range all {
		r := varint.NewReader(v)
		outcome := ask.Outcome(r.Uint8())
		ask.ReadVector(r)
		if r.Err() != nil || outcome != ask.Answered {
			return nil
		}
		votes = append(votes, r.Rest())
	}
	return votes
}

func sessionKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{sessionKeys}, id) }
