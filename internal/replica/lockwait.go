package replica

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/reads"
	"github.com/globalfs/globalfs/internal/turn"
)

// A client that waits for a lock asks one replica for the lock that conflicts (meta.OpGetLock with
// meta.AwaitLock). The replica keeps the query while there is one, for at most lockLinger. The waiting is not
// replicated state: after the answer the client takes the lock by an update, or asks again.
//
// When locks on an inode end, the replica answers the waiting queries in the order of their arrival: those
// whose locks conflict neither with a lock nor with the lock of a query answered just before. So one of
// several exclusive waiters tries to take a lock. If its client is gone, the next waiter gets an answer when
// its time is over.

const (
	// lockLinger is shorter than the patience of clients with a replica.
	lockLinger = time.Second
	// maxLockWaits bounds the queries that wait for the locks of one inode.
	maxLockWaits = 256
	// maxLockWaitsOfClient bounds the queries of a bound client that wait for locks at a replica.
	maxLockWaitsOfClient = 64
)

// lockWaits are the queries that wait for locks. Beyond the bounds a query is answered at once, and its
// client asks again after a pause.
type lockWaits struct {
	machine *meta.Machine
	most    int // queries that may wait
	reply   func(q *ask.Request, token uint64, s ask.Outcome, result []byte) turn.Call
	waiting []*lockWait
}

type lockWait struct {
	reads.Query
	until time.Duration
}

// park keeps a query that has met a conflicting lock. It reports whether there was room.
func (l *lockWaits) park(q *reads.Query, now time.Duration) bool {
	ofIno, ofClient := 0, 0
	for _, w := range l.waiting {
		if w.Command.Ino == q.Command.Ino {
			ofIno++
		}
		if w.Call.From.Owner() == q.Call.From.Owner() {
			ofClient++
		}
	}
	if len(l.waiting) >= l.most || ofIno >= maxLockWaits || q.Call.From.Bounds() != nil && ofClient >= maxLockWaitsOfClient {
		return false
	}
	l.waiting = append(l.waiting, &lockWait{*q, now + lockLinger})
	return true
}

// take removes and returns the queries to answer after locks on an inode have ended. A query that is answered
// counts as a lock for the queries behind.
func (l *lockWaits) take(ino posix.Ino) (due []*lockWait) {
	if !slices.ContainsFunc(l.waiting, func(w *lockWait) bool { return w.Command.Ino == ino }) {
		return nil
	}
	locks := meta.LocksOn(l.machine, ino)
	l.waiting = slices.DeleteFunc(l.waiting, func(w *lockWait) bool {
		if w.Command.Ino != ino || locks.Conflicts(&w.Command) {
			return false
		}
		locks.Add(&w.Command)
		due = append(due, w)
		return true
	})
	return due
}

// takeExpired removes and returns the queries whose time is over.
func (l *lockWaits) takeExpired(now time.Duration) (due []*lockWait) {
	for len(l.waiting) > 0 && now >= l.waiting[0].until {
		due, l.waiting = append(due, l.waiting[0]), l.waiting[1:]
	}
	return due
}

// wake returns the time of the next answer that is due; 0: none.
func (l *lockWaits) wake() time.Duration {
	if len(l.waiting) == 0 {
		return 0
	}
	return l.waiting[0].until
}

// withdraw removes the queries of clients that have given up.
func (l *lockWaits) withdraw(tokens []uint64) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *lockWait) bool { return slices.Contains(tokens, w.Call.Token) })
}

// takeCalls removes all queries, and returns the tokens of their calls.
func (l *lockWaits) takeCalls() (tokens []uint64) {
	for _, w := range l.waiting {
		tokens = append(tokens, w.Call.Token)
	}
	l.waiting = nil
	return tokens
}

// keeps reports whether a query waits for the end of the lock in its result.
func (l *lockWaits) keeps(q *reads.Query, result *meta.Result, now time.Duration) bool {
	return q.Command.Op == meta.OpGetLock && q.Command.Flags&meta.AwaitLock != 0 && result.Data != nil && l.park(q, now)
}

// answer answers the queries whose wait has ended: locks on some inodes have ended, or their time is over.
func (l *lockWaits) answer(released []posix.Ino, now time.Duration, replies []turn.Call) []turn.Call {
	due := l.takeExpired(now)
	for _, ino := range released {
		due = append(due, l.take(ino)...)
	}
	for _, w := range due {
		result := l.machine.Query(&w.Command)
		replies = append(replies, l.reply(&w.Request, w.Call.Token, ask.Answered, result.Append(nil)))
	}
	return replies
}
