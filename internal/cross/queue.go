package cross

import (
	"cmp"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// request is a client's update of several partitions at the asked replica, until it is answered.
type request struct {
	number   uint64 // of this replica's requests, by which they are ordered
	name     session.Name
	call     turn.Call   // the first call
	query    ask.Request // of the call
	command  meta.Command
	tokens   []uint64      // of all calls for the update with waiting clients
	age      Age           // zero until the first proposal
	attempt  uint8         // proposals so far
	since    time.Duration // the time of its arrival
	notUntil time.Duration // the end of the pause after an abort
	deadline time.Duration // of the call; 0: none
	// unreachableSince is the time from which on a party has been out of reach; 0: all are in reach.
	unreachableSince time.Duration
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

// update names the update in its session.
func (r *request) update() session.Update {
	return session.Update{Session: r.query.Session, Seq: r.query.Seq, Done: r.query.Done}
}

// isOver reports whether the time of the calls is over.
func (r *request) isOver(now time.Duration) bool { return r.deadline != 0 && now >= r.deadline }

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

// queue holds the requests with messages that are not relayed.
type queue struct {
	last     uint64                           // number of the newest
	waiting  []*request                       // to be proposed
	proposed map[multicast.MessageID]*request // in the order between partitions
	byName   map[session.Name]*request        // all of them
}

func newQueue() queue {
	return queue{proposed: map[multicast.MessageID]*request{}, byName: map[session.Name]*request{}}
}

// next returns the number of a new request.
func (q *queue) next() uint64 {
	q.last++
	return q.last
}

// len returns the number of requests.
func (q *queue) len() int { return len(q.byName) }

// find returns the request for an update; nil: there is none.
func (q *queue) find(n session.Name) *request { return q.byName[n] }

// add adds a request that is to be proposed.
func (q *queue) add(r *request) {
	if first := q.byName[r.name]; first != nil {
		first.join(r)
		return
	}
	q.waiting = append(q.waiting, r)
	q.byName[r.name] = r
}

// toPropose returns the requests that are to be proposed, in the order in which they were added. The list is
// the caller's.
func (q *queue) toPropose() []*request { return slices.Clone(q.waiting) }

// underWay returns the requests that are proposed, in any order.
func (q *queue) underWay() (all []*request) {
	for _, r := range q.proposed {
		all = append(all, r)
	}
	return all
}

// propose records the message by which a request is proposed.
func (q *queue) propose(r *request, id multicast.MessageID) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *request) bool { return o == r })
	q.proposed[id] = r
}

// begun removes and returns the request of a relayed message; nil: another replica has proposed it.
func (q *queue) begun(id multicast.MessageID) *request {
	r := q.proposed[id]
	if r != nil {
		delete(q.proposed, id)
		delete(q.byName, r.name)
	}
	return r
}

// drop removes a request.
func (q *queue) drop(r *request) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *request) bool { return o == r })
	for id, o := range q.proposed {
		if o == r {
			delete(q.proposed, id)
		}
	}
	if q.byName[r.name] == r {
		delete(q.byName, r.name)
	}
}
