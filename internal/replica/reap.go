package replica

import (
	"cmp"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/session"
)

// maxReap bounds the number of inodes that one entry removes.
const maxReap = 512

// reap removes unlinked inodes that no session can hold (I4), those with the lowest numbers first. If more
// are left, the replica that proposed this entry proposes another one.
func (r *Replica) reap(mine bool) {
	x := &r.progress.reaper
	due := x.due(r.machine, r.sessions, r.sessions.Seen(r.cross.Count()), maxReap)
	for _, ino := range due {
		r.machine.Reap(ino, r.progress.time)
		if _, is := meta.OrphanOf(r.machine, ino); is {
			x.ripe.Push(ripe(ino)) // an undecided command names it
		}
	}
	if len(due) == maxReap && mine {
		r.progress.reapAgain = true
	}
}

// reaper finds the orphans that can be reaped. Each renewal of a session reaps, so a reap must cost no more
// than the orphans that have changed: a client may hold many thousands of them. A reaper is derived from the
// store and from the sessions, and is no part of the state.
type reaper struct {
	known bool               // the orphans of the store have been read
	young heap.Heap[young]   // orphans whose removal some session may not have seen
	ripe  heap.Heap[ripe]    // orphans whose removal all sessions have seen, and that no session may hold
	held  map[posix.Ino]bool // orphans whose removal all sessions have seen, and that a session holds
}

// young orders orphans by the update that removed the last name.
type young meta.Orphan

// Before implements heap.Item.
func (y young) Before(other young) bool { return y.Counter < other.Counter }

// Moved implements heap.Item.
func (young) Moved(int) {}

// ripe orders orphans by number.
type ripe posix.Ino

// Before implements heap.Item.
func (i ripe) Before(other ripe) bool { return i < other }

// Moved implements heap.Item.
func (ripe) Moved(int) {}

// learn adds the orphans of m that are new since the last call.
func (x *reaper) learn(m *meta.Machine) {
	orphaned, all := meta.TakeOrphaned(m)
	if all {
		x.known = false
	}
	if !x.known {
		return
	}
	for _, ino := range orphaned {
		if o, is := meta.OrphanOf(m, ino); is {
			x.young.Push(young(o))
		}
	}
}

// load reads all orphans of m.
func (x *reaper) load(m *meta.Machine) {
	*x = reaper{known: true, held: map[posix.Ino]bool{}}
	for after, more := posix.Ino(0), true; more; {
		orphans := m.Orphans(after, maxReap)
		for _, o := range orphans {
			after = o.Ino
			x.young.Push(young(o))
		}
		more = len(orphans) == maxReap
	}
}

// due removes and returns at most most orphans that can be reaped, in ascending order. seen is the place of
// the order that all sessions have seen.
func (x *reaper) due(m *meta.Machine, s *session.Sessions, seen uint64, most int) (due []posix.Ino) {
	x.learn(m)
	released := s.TakeReleased()
	if !x.known {
		x.load(m)
		released = nil
	}
	for _, ino := range released {
		if x.held[ino] {
			delete(x.held, ino)
			x.ripe.Push(ripe(ino))
		}
	}
	for len(x.young) > 0 && x.young[0].Counter <= seen {
		x.ripe.Push(ripe(x.young.Pop().Ino))
	}
	for last := posix.Ino(0); len(x.ripe) > 0 && len(due) < most; {
		ino := posix.Ino(x.ripe.Pop())
		o, is := meta.OrphanOf(m, ino)
		switch {
		case !is || ino == last: // it has a name again, or was twice without one
		case o.Counter > seen: // a session that has seen less was opened
			x.young.Push(young(o))
		case s.IsHeld(ino):
			x.held[ino] = true
		default:
			due = append(due, ino)
		}
		last = ino
	}
	return due
}

// floor is a place of the order that all sessions of bound clients are assumed to have seen. Removed inodes
// and their blocks are kept until each session has seen the removal, and a hostile client could claim for
// ever that it has not. So the asked replica raises the vector of a request that opens or renews a session of
// a bound client to entries that the replica executed one to two leases ago. The answer to each renewal has
// the vector of a replica, so a client that renews its session in time has seen these entries, unless the
// replicas that it asks are a lease behind. Then an inode that was removed a lease ago may be missing when
// the client opens it. Like the bounds of quota.go, the floor is no part of the ordered state.
type floor struct {
	older, newer ask.Seen
	since        time.Duration // of newer, on the monotonic clock
}

// raise raises the vector of a request, and reports whether it changed.
func (f *floor) raise(r *Replica, q *ask.Request, from *ask.Client) bool {
	if from.Bounds() == nil || q.Kind != ask.OpenSession && q.Kind != ask.RenewSession {
		return false
	}
	if r.now.Mono-f.since >= cmp.Or(r.cfg.Lease, session.DefaultLease) {
		own := r.cross.Own()
		f.older, f.newer, f.since = f.newer, ask.Seen{History: own.History, Count: own.Count}, r.now.Mono
	}
	partition := r.cfg.Partition
	if !f.older.IsAhead(q.Reader(partition)) {
		return false
	}
	if q.Kind == ask.RenewSession && q.Reader(partition).Count < r.sessions.Place(q.Session) {
		q.Held = r.sessions.HeldBy(q.Session, from) // it only extends the lease: its inodes do not replace the held ones
	}
	v := make(ask.Vector, partition+1)
	v[partition] = f.older
	q.Vector = q.Vector.Clone().Merge(v)
	return true
}
