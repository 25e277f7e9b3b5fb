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

// reachPatience is the time for which an update waits until a quorum of each party is in reach. Then its
// client is told to try again.
const reachPatience = 8 * time.Second

// A command that was aborted is proposed again after a pause, which doubles.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = time.Second
)

// request is a client's update of several partitions at the asked replica, until it is answered.
type request struct {
	number   uint64 // of this replica's requests, by which they are ordered
	name     session.Name
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
	byName   map[session.Name]*request        // all of them
}

func newRequests() requests {
	return requests{proposed: map[multicast.MessageID]*request{}, byName: map[session.Name]*request{}}
}

// queue adds a request that is to be proposed.
func (r *requests) queue(q *request) {
	if first := r.byName[q.name]; first != nil {
		first.join(q)
		return
	}
	r.waiting = append(r.waiting, q)
	r.byName[q.name] = q
}

// begun takes the request out whose message was relayed; nil: another replica has proposed it.
func (r *requests) begun(id multicast.MessageID) *request {
	q := r.proposed[id]
	if q != nil {
		delete(r.proposed, id)
		delete(r.byName, q.name)
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
	if r.byName[q.name] == q {
		delete(r.byName, q.name)
	}
}

func byNumber(a, b *request) int { return cmp.Compare(a.number, b.number) }

// olderFirst orders updates by their age. Those that were never proposed have none, and come last.
func olderFirst(a, b *request) int {
	switch isNew, other := a.age == (Age{}), b.age == (Age{}); {
	case isNew && other:
		return byNumber(a, b)
	case isNew:
		return 1
	case other:
		return -1
	}
	return a.age.compare(b.age)
}

// Submit takes an update of several partitions. The caller has validated it, and found no answer to it.
func (c *Commands) Submit(call turn.Call, q ask.Request, command meta.Command) {
	u := session.Update{Session: q.Session, Seq: q.Seq, Done: q.Done}
	c.requests.last++
	r := &request{
		number: c.requests.last, name: u.Name(call.From), call: call, query: q, command: command,
		tokens: []uint64{call.Token}, since: c.now.Mono,
	}
	if q.Patience > 0 {
		r.deadline = c.now.Mono + q.Patience
	}
	if x := c.byUpdate(u); x != nil && c.sessions.Has(q.Session, call.From) {
		x.request = x.request.join(r)
		return
	}
	if len(c.requests.byName) >= c.cfg.MaxPending {
		c.reply(r.tokens, ask.Overloaded, nil)
		return
	}
	c.requests.queue(r)
	c.hurry()
}

// Withdraw removes calls whose clients have given up. An update without calls is not proposed, and not
// proposed again.
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

// admitRequests proposes the updates whose parties are in reach and whose objects are free for their readers.
// It ends those whose time is over.
func (c *Commands) admitRequests() {
	flying := c.inFlight()
	if len(flying)+len(c.requests.waiting) == 0 {
		return
	}
	ahead := objects{}
	for _, r := range flying {
		ahead.add(&r.command)
		if r.isOver(c.now.Mono) {
			c.proposeAbandon(r)
		} else if r.deadline != 0 {
			c.wakeBy(r.deadline)
		}
	}
	for _, r := range slices.SortedStableFunc(slices.Values(c.requests.waiting), olderFirst) {
		u := session.Update{Session: r.query.Session, Seq: r.query.Seq, Done: r.query.Done}
		if v := c.sessions.Admit(u, r.call.From); !v.Execute && c.sessions.Has(u.Session, nil) {
			c.requests.drop(r)
			c.reply(r.tokens, v.Outcome, v.Answer)
			continue
		}
		c.admitRequest(r, ahead.has(&r.command))
		ahead.add(&r.command)
	}
}

// admitRequest proposes an update, or notes the time at which it is to be looked at again. behind says that
// an older update for the same objects is at this replica.
func (c *Commands) admitRequest(r *request, behind bool) {
	own := r.query.Reader(c.cfg.Partition)
	switch {
	case r.isOver(c.now.Mono):
		c.proposeAbandon(r)
	case c.now.Mono < r.notUntil:
		c.wakeBy(r.notUntil)
	case own.LastOpen() > c.Count() && c.now.Mono-r.since < ask.DoubtAfter:
		c.wakeBy(r.since + ask.DoubtAfter)
	case !c.inReachOrAsk(r.query.Dest):
		c.awaitReach(r)
	case behind || c.Awaits(own, &r.command) || c.yields(r):
		r.silent = 0
		c.wakeBy(c.now.Mono + repeatAfter)
	default:
		c.propose(r)
	}
}

// awaitReach lets an update wait for parties that are out of reach, for a while.
func (c *Commands) awaitReach(r *request) {
	switch {
	case r.silent == 0:
		r.silent = max(c.now.Mono, 1)
	case c.now.Mono-r.silent > reachPatience:
		c.requests.drop(r)
		c.reply(r.tokens, ask.Overloaded, nil)
	}
}

// yields reports whether an update is not proposed now because a command holds its objects here. An update
// that is older than the holders does not yield: it waits for them in the order, and is the next. Otherwise
// new updates could always come first. An update without an age gets one when it has yielded for a while.
func (c *Commands) yields(r *request) bool {
	holders := c.machine.Conflicts(0, &r.command, r.query.Dest).Holders
	if len(holders) == 0 || r.age == (Age{}) && c.now.Mono-r.since >= repeatAfter {
		return false
	}
	return r.age == (Age{}) || c.isYounger(&command{age: r.age}, holders)
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
	r.abandoning = c.Abandon(r.name)
}

// Abandon orders that an update gets ETIMEDOUT as its answer, unless it is answered before.
func (c *Commands) Abandon(update session.Name) multicast.MessageID {
	return c.proposeEntry(EntryAbandon, appendAbandoned(nil, update))
}
