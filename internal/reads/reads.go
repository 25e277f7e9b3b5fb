// Package reads holds the queries of a replica that wait (thesis section 3.4.1: causal reads; linearizable
// reads).
//
// A query waits until the replica has executed all that its reader has seen (ask.Seen), and until no
// undecided command that touches its objects may have been committed in the reader's past (package cross).
//
// A fresh query is linearizable: it sees every update that was answered anywhere before the query was sent. A
// barrier in the partition's own order comes after everything that was executed there before. A command of
// several partitions was answered only after all of them had voted. So an update that must be seen is
// executed up to the barrier, or undecided at the barrier; the query waits for the undecided commands that
// touch its objects.
//
// # Counts that are false
//
// A reader may show a count that this partition has never reached: a client can invent a count, and a
// partition that was restored from a backup has lost entries. A query that has waited for a count for some
// time passes a barrier. A true count was reached at some replica before the query was sent, so the barrier
// is ordered after it. A count above that of the barrier is false, and the query gets the outcome ask.Unseen.
// The barrier carries the highest entry that a reader has proven: if that entry is false, the partition has
// lost entries, and begins a new history (cross.Commands.Doubt). Queries of readers that show an older
// history get ask.Unseen at once.
package reads

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// State is the state that queries wait for.
type State interface {
	// Own returns the entry of the state's partition: the entries of its order that were executed.
	Own() ask.Seen
	// Awaits reports whether a reader must wait for an undecided command that touches the objects of a query.
	Awaits(reader ask.Seen, command *meta.Command) bool
	// Barrier returns the commands that may be committed elsewhere already.
	Barrier() []uint64
	// AwaitsAny reports whether one of these commands is undecided, and touches the objects of a query.
	AwaitsAny(commands []uint64, command *meta.Command) bool
	// HiddenBy is for a fresh query that has passed its barrier. It returns a directory whose holder holds an
	// object of the query: the holder may have answered changes of the object that are not ordered. 0: there
	// is no such directory.
	HiddenBy(q *Query) posix.Ino
}

// Query is a query that was validated.
type Query struct {
	Call    turn.Call
	Request ask.Request
	Command meta.Command
	reader  ask.Seen // the reader's entry for this partition
	fresh   bool     // the query must pass a barrier first
	before  []uint64 // the commands that were undecided at its barrier
	since   time.Duration
	hidden  posix.Ino // the directory for whose return it waits; 0: it waits for something else
}

// Queries are the queries that wait at a replica. Queries are not safe for concurrent use.
type Queries struct {
	state        State
	self         uint16
	waiting      []*Query
	hidden       hidden
	barrier      multicast.MessageID // the proposed barrier; zero: none
	awaitBarrier []*Query            // the queries that wait for the barrier
	wakeAt       time.Duration
}

// New returns empty Queries for a partition.
func New(partition uint16, state State) *Queries {
	return &Queries{state: state, self: partition, hidden: hidden{by: map[posix.Ino][]*Query{}}}
}

// Len returns the number of queries that wait.
func (q *Queries) Len() int { return len(q.waiting) + q.hidden.count }

// Of returns the number of queries of a client that wait.
func (q *Queries) Of(owner string) (n int) {
	count := func(list []*Query) {
		for _, x := range list {
			if x.Call.From.Owner() == owner {
				n++
			}
		}
	}
	count(q.waiting)
	for _, list := range q.hidden.by {
		count(list)
	}
	return n
}

// Add keeps a query, unless the query need not wait. ready reports that it need not wait.
func (q *Queries) Add(x Query, now time.Duration) (ready bool) {
	x.reader, x.fresh, x.since = x.Request.Reader(q.self), x.Request.Fresh, now
	if q.isReady(&x) {
		return true
	}
	q.waiting = append(q.waiting, &x)
	return false
}

// all returns the queries that wait, in a fixed order.
func (q *Queries) all() []*Query { return slices.Concat(q.waiting, q.hidden.all()) }

// isReady reports whether a query need not wait. The answer to a query is ask.Unseen if IsUnseen reports it.
func (q *Queries) isReady(x *Query) bool {
	x.hidden = 0
	switch {
	case q.IsUnseen(x):
		return true
	case x.fresh || q.isAhead(x) || q.state.Awaits(x.reader, &x.Command) || q.state.AwaitsAny(x.before, &x.Command):
		return false
	case x.Request.Fresh:
		x.hidden = q.state.HiddenBy(x)
	}
	return x.hidden == 0
}

func (q *Queries) isAhead(x *Query) bool { return x.reader.IsAhead(q.state.Own()) }

// IsUnseen reports whether the reader of a query shows an old history.
func (q *Queries) IsUnseen(x *Query) bool { return x.Request.Reader(q.self).IsPast(q.state.Own()) }

// Ready removes and returns the queries that need not wait any more. It ignores the hidden queries, which
// wait for Returned.
func (q *Queries) Ready() (ready []*Query) {
	q.beginHistory()
	q.waiting = slices.DeleteFunc(q.waiting, func(x *Query) bool {
		switch {
		case q.isReady(x):
			ready = append(ready, x)
		case x.hidden != 0:
			q.hidden.add(x)
		default:
			return false
		}
		return true
	})
	return ready
}

// Raise proposes one barrier for all queries that need one, unless one is under way. proven is the newest
// entry that a reader of these queries has proven.
func (q *Queries) Raise(now time.Duration, propose func(proven ask.Seen) multicast.MessageID) {
	q.wakeAt = 0
	if len(q.awaitBarrier) > 0 {
		return
	}
	var proven ask.Seen
	for _, x := range q.waiting {
		if x.fresh || q.isAhead(x) && now >= x.since+ask.DoubtAfter {
			q.awaitBarrier = append(q.awaitBarrier, x)
			if own := x.Request.Vector.Of(q.self); own.IsAhead(proven) {
				proven = ask.Seen{History: own.History, Count: own.Count, Known: own.Count}
			}
		} else {
			q.wakeFor(x)
		}
	}
	if len(q.awaitBarrier) > 0 {
		q.barrier = propose(proven)
	}
}

// Wake returns the time of the next Raise that is needed, on the monotonic clock; 0: none.
func (q *Queries) Wake() time.Duration { return q.wakeAt }

// Pass records that a barrier was executed. It removes and returns the queries with a false count.
func (q *Queries) Pass(id multicast.MessageID) (unseen []*Query) {
	if id != q.barrier || len(q.awaitBarrier) == 0 {
		return nil
	}
	for _, x := range q.awaitBarrier {
		if q.isAhead(x) {
			unseen = append(unseen, x)
		}
		if x.fresh {
			x.fresh, x.before = false, q.state.Barrier()
		}
	}
	q.awaitBarrier, q.barrier = nil, multicast.MessageID{}
	q.waiting = slices.DeleteFunc(q.waiting, func(x *Query) bool { return slices.Contains(unseen, x) })
	for _, x := range q.waiting { // queries that arrived while the barrier was under way
		q.wakeFor(x)
	}
	return unseen
}

// wakeFor records the time at which a query needs a barrier.
func (q *Queries) wakeFor(x *Query) {
	at := x.since
	switch {
	case x.fresh:
	case q.isAhead(x):
		at += ask.DoubtAfter
	default:
		return
	}
	if at = max(at, 1); q.wakeAt == 0 || at < q.wakeAt {
		q.wakeAt = at
	}
}

// Withdraw removes the queries of calls whose clients do not wait any more.
func (q *Queries) Withdraw(tokens []uint64) {
	gone := func(x *Query) bool { return slices.Contains(tokens, x.Call.Token) }
	q.waiting, q.awaitBarrier = slices.DeleteFunc(q.waiting, gone), slices.DeleteFunc(q.awaitBarrier, gone)
	q.hidden.withdraw(gone)
}

// TakeCalls removes all queries, and returns the tokens of their calls.
func (q *Queries) TakeCalls() (tokens []uint64) {
	for _, x := range q.all() {
		tokens = append(tokens, x.Call.Token)
	}
	q.waiting, q.awaitBarrier = nil, nil
	q.hidden = hidden{by: map[posix.Ino][]*Query{}}
	return tokens
}
