package cross

import (
	"cmp"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// reachPatience is the time for which an update waits until a quorum of each party is in reach. Then its client is told
// to try again.
const reachPatience = 8 * time.Second

// doubtAfter is the time for which an update waits for a place that its client has seen and this replica has not. Then it
// is proposed: the order tells whether the place is true.
const doubtAfter = 100 * time.Millisecond

// A command that was aborted is proposed again after a pause, which doubles.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// updateKey names an update of a client: another client that uses the same session number does not interfere.
type updateKey struct {
	session, seq uint64
	client       string
}

// request is a client's update of several partitions at the asked replica, until it is answered.
type request struct {
	number   uint64 // of this replica's requests, by which they are ordered
	key      updateKey
	call     turn.Call   // the first call
	query    ask.Request // of the call
	command  meta.Command
	tokens   []uint64      // of all calls for the update whose clients wait
	age      Age           // zero until the first proposal
	attempt  uint8         // proposals so far
	since    time.Duration // when it came
	silent   time.Duration // since when its parties are out of reach; 0: they are not
	notUntil time.Duration // a pause after it was aborted
	deadline time.Duration // of the call; 0: none
	// abandoning is the entry that ends the update because its time is over.
	abandoning multicast.MessageID
}

// join adds the calls of another request for the same update.
func (r *request) join(other *request) *request {
	switch {
	case other == nil:
		return r
	case r == nil:
		return other
	}
	r.tokens = append(r.tokens, other.tokens...)
	if r.deadline = max(r.deadline, other.deadline); other.deadline == 0 {
		r.deadline = 0
	}
	return r
}

// requests are the updates of several partitions at the asked replica that are not relayed.
type requests struct {
	last     uint64                           // number of the newest
	waiting  []*request                       // to be proposed
	proposed map[multicast.MessageID]*request // in the order between partitions
	byUpdate map[updateKey]*request           // all of them
}

func newRequests() requests {
	return requests{proposed: map[multicast.MessageID]*request{}, byUpdate: map[updateKey]*request{}}
}

// queue adds a request that is to be proposed.
func (r *requests) queue(q *request) {
	if first := r.byUpdate[q.key]; first != nil {
		first.join(q)
		return
	}
	r.waiting = append(r.waiting, q)
	r.byUpdate[q.key] = q
}

// begun takes the request out whose message was relayed; nil: another replica has proposed it.
func (r *requests) begun(id multicast.MessageID) *request {
	q := r.proposed[id]
	if q != nil {
		delete(r.proposed, id)
		delete(r.byUpdate, q.key)
	}
	return q
}

// drop removes a request.
func (r *requests) drop(q *request) {
	r.waiting = slices.DeleteFunc(r.waiting, func(o *request) bool { return o == q })
	for id, o := range r.proposed {
		if o == q {
			delete(r.proposed, id)
		}
	}
	if r.byUpdate[q.key] == q {
		delete(r.byUpdate, q.key)
	}
}

func byNumber(a, b *request) int { return cmp.Compare(a.number, b.number) }

// Submit takes an update of several partitions. The caller has validated it, and found no answer to it.
func (c *Commands) Submit(call turn.Call, q ask.Request, command meta.Command) {
	u := session.Update{Session: q.Session, Seq: q.Seq, Done: q.Done}
	c.requests.last++
	r := &request{
		number: c.requests.last, key: updateKey{q.Session, q.Seq, call.From.Owner()}, call: call, query: q, command: command,
		tokens: []uint64{call.Token}, since: c.now.Mono,
	}
	if q.Patience > 0 {
		r.deadline = c.now.Mono + q.Patience
	}
	if x := c.byUpdate(u); x != nil && c.sessions.Has(q.Session, call.From) {
		x.request = x.request.join(r)
		return
	}
	if len(c.requests.byUpdate) >= c.cfg.MaxPending {
		c.reply(r.tokens, ask.Overloaded, nil)
		return
	}
	c.requests.queue(r)
	c.hurry()
}

// Withdraw removes calls whose clients have given up. An update without calls is not proposed, and not proposed again.
func (c *Commands) Withdraw(tokens []uint64) {
	gone := func(token uint64) bool { return slices.Contains(tokens, token) }
	for _, r := range slices.Concat(c.requests.waiting, c.inFlight()) {
		r.tokens = slices.DeleteFunc(r.tokens, gone)
	}
	for _, r := range slices.Clone(c.requests.waiting) {
		if len(r.tokens) == 0 {
			c.requests.drop(r)
		}
	}
}

// TakeCalls removes and returns the tokens of all calls, in a fixed order.
func (c *Commands) TakeCalls() (tokens []uint64) {
	for _, r := range slices.Concat(c.requests.waiting, c.inFlight()) {
		tokens = append(tokens, r.tokens...)
	}
	for _, x := range c.list {
		x.request = nil
	}
	c.requests = newRequests()
	return tokens
}

// admitRequests proposes the updates whose parties are in reach and whose objects are free for their readers. It ends
// those whose time is over.
func (c *Commands) admitRequests() {
	for _, r := range slices.Clone(c.requests.waiting) {
		u := session.Update{Session: r.query.Session, Seq: r.query.Seq, Done: r.query.Done}
		if v := c.sessions.Admit(u, r.call.From); !v.Execute && c.sessions.Has(u.Session, nil) {
			c.requests.drop(r)
			c.reply(r.tokens, v.Outcome, v.Answer)
			continue
		}
		own := r.query.Vector.Of(c.cfg.Partition)
		switch {
		case r.isOver(c.now.Mono):
			c.proposeAbandon(r)
		case c.now.Mono < r.notUntil:
			c.wakeBy(r.notUntil)
		case own.LastOpen() > c.Count() && c.now.Mono-r.since < doubtAfter:
			c.wakeBy(r.since + doubtAfter)
		case c.Awaits(own, &r.command) || len(c.machine.Conflicts(0, &r.command, r.query.Dest).Holders) > 0:
			c.wakeBy(c.now.Mono + repeatAfter)
		case c.inReachOrAsk(r.query.Dest):
			c.propose(r)
		case r.silent == 0:
			r.silent = max(c.now.Mono, 1)
		case c.now.Mono-r.silent > reachPatience:
			c.requests.drop(r)
			c.reply(r.tokens, ask.Overloaded, nil)
		}
	}
	for _, r := range c.inFlight() {
		if r.isOver(c.now.Mono) {
			c.proposeAbandon(r)
		} else if r.deadline != 0 {
			c.wakeBy(r.deadline)
		}
	}
}

// isOver reports whether the time of the calls is over.
func (r *request) isOver(now time.Duration) bool { return r.deadline != 0 && now >= r.deadline }

// propose multicasts an update to its parties.
func (c *Commands) propose(r *request) {
	p := proposal{coordinator: c.cfg.Partition, age: r.age, attempt: r.attempt, client: r.call.From, request: r.call.Data}
	id := c.orders.Multicast(r.query.Dest, order.Entry{Kind: EntryCommand, Body: p.encode()})
	c.requests.waiting = slices.DeleteFunc(c.requests.waiting, func(o *request) bool { return o == r })
	c.requests.proposed[id] = r
	r.silent = 0
	if r.deadline != 0 {
		c.wakeBy(r.deadline)
	}
}

// inFlight returns the requests that are proposed or whose command is undecided, in a fixed order.
func (c *Commands) inFlight() (all []*request) {
	for _, r := range c.requests.proposed {
		all = append(all, r)
	}
	for _, x := range c.list {
		if x.request != nil {
			all = append(all, x.request)
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// proposeAbandon orders the end of an update, once.
func (c *Commands) proposeAbandon(r *request) {
	if c.orders.Pending(r.abandoning) {
		return
	}
	r.abandoning = c.Abandon(r.query.Session, r.query.Seq, r.call.From)
}

// Abandon orders that an update gets ETIMEDOUT as its answer, unless it is answered before.
func (c *Commands) Abandon(session, seq uint64, client *ask.Client) multicast.MessageID {
	body := appendAbandoned(nil, abandoned{session: session, seq: seq, owner: client.Owner()})
	return c.proposeEntry(EntryAbandon, body)
}
