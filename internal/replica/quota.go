package replica

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A bound client must not fill the memory and the disks of all replicas, nor take the capacity of other
// clients. Therefore the asked replica bounds the requests of each client name. Clients with user 0 and the
// cluster's own processes have no bounds.
//
// The bounds are not replicated state: replicas with different bounds execute the same entries. Each replica
// counts only the requests that it has proposed and the state that it has executed. So a client that uses all
// replicas of a partition at once has the bound of one replica times their number.
const (
	// MaxSessionsOfClient is the maximum number of open sessions of a bound client in a partition.
	MaxSessionsOfClient = 64
	// MaxHeldOfClient is the maximum number of inodes that the sessions of a bound client hold together.
	MaxHeldOfClient = 2 * ask.MaxHeld
	// MaxLocksOfSession is the maximum number of locks on files of a session of a bound client. The end of a
	// session removes all its locks at once, and nothing else happens meanwhile.
	MaxLocksOfSession = 8192
	// A bound client may have MaxPending/proposedParts proposed updates, MaxPending/blockedParts blocked
	// ones, and MaxPending/queryParts queries that wait.
	proposedParts, blockedParts, queryParts = 4, 8, 4
)

// share counts the requests of a bound client that this replica has proposed and that are not delivered yet.
type share struct{ proposed, opening, held int }

// charge counts an update of a bound client: sign is 1 when it is proposed, and -1 when it is delivered.
func (s *updates) charge(u *update, sign int) {
	if u.call.From.Bounds() == nil {
		return
	}
	x := s.shares[u.call.From.Owner()]
	x.proposed += sign
	switch u.query.Kind {
	case ask.OpenSession:
		x.opening += sign
	case ask.RenewSession:
		x.held += sign * u.grows
	}
	if x == (share{}) {
		delete(s.shares, u.call.From.Owner())
		return
	}
	s.shares[u.call.From.Owner()] = x
}

// blocks returns the number of blocked updates of a client; 0 for a client without bounds.
func (s *updates) blocks(bounds *posix.Authority, owner string) (n int) {
	if bounds == nil {
		return 0
	}
	for _, u := range s.blocked {
		if u.call.From.Owner() == owner {
			n++
		}
	}
	return n
}

func (r *Replica) shareOfBlocked() int  { return max(1, r.cfg.MaxPending/blockedParts) }
func (r *Replica) shareOfProposed() int { return max(1, r.cfg.MaxPending/proposedParts) }
func (r *Replica) shareOfQueries() int  { return max(1, r.cfg.MaxPending/queryParts) }

// quota refuses a change of a session if a bound client would exceed its share.
func (r *Replica) quota(u *update) error {
	from := u.call.From
	if from.Bounds() == nil {
		return nil
	}
	usage, under := r.sessions.Usage(from.Owner()), r.updates.shares[from.Owner()]
	switch u.query.Kind {
	case ask.OpenSession:
		if n := usage.Sessions + under.opening; n >= MaxSessionsOfClient && !r.sessions.Has(u.query.Session, from) {
			return fmt.Errorf("client %s has %d sessions in this partition, which is the most: unmount some, or wait a minute for those that ended without a word; give each machine a certificate of its own",
				from.Owner(), n)
		}
	case ask.RenewSession:
		u.grows = max(0, len(u.query.Held)-r.sessions.Held(u.query.Session))
		if n := usage.Held + under.held + u.grows; u.grows > 0 && n > MaxHeldOfClient {
			return fmt.Errorf("client %s would hold %d inodes of this partition open, by all its sessions: at most %d", from.Owner(), n, MaxHeldOfClient)
		}
	}
	return nil
}

const (
	// countLocksEvery is the time between two counts of the locks of a session that has little room.
	countLocksEvery = time.Second
	// muchRoom is the number of lock updates between two counts that makes the counts cheap.
	muchRoom = 1 << 10
)

// lockRoom is the number of lock updates of a session for which there is certainly room. It spares most
// updates a count of the locks.
type lockRoom struct {
	updates int
	initial int           // updates at the last count
	counted time.Duration // on the monotonic clock
}

// lockRooms are the rooms of the sessions of bound clients, by number.
type lockRooms map[uint64]lockRoom

// hasTooManyLocks reports whether there is no room for a lock update of a bound client. An update that is
// executed or under way has its room.
func hasTooManyLocks(r *Replica, u *update) bool {
	if u.command.Authority == nil || r.updates.has(u.name()) {
		return false
	}
	return !r.updates.locks.admits(r.machine, &u.command, r.now.Mono) && r.sessions.Admit(u.session(), u.call.From).Execute
}

// admits reports whether a lock update of a bound client may be proposed. If there is no room, a release is
// admitted unless it divides a lock.
func (l lockRooms) admits(m *meta.Machine, c *meta.Command, now time.Duration) bool {
	return l.hasRoom(m, c, now) || c.Flags&meta.LockUnlock != 0 && !meta.AddsLocks(m, c)
}

// hasRoom reports whether there is room for a lock update of a session, and takes the room.
func (l lockRooms) hasRoom(m *meta.Machine, c *meta.Command, now time.Duration) bool {
	room, known := l[c.Session]
	if known && room.updates == 0 && room.initial < muchRoom && now-room.counted < countLocksEvery {
		return false
	}
	if room.updates == 0 {
		if len(l) >= maxRecallers {
			clear(l) // of ended sessions, too
		}
		// An update may divide a lock in two and add one between them.
		updates := max(0, MaxLocksOfSession-meta.CountLocks(m, c.Session, MaxLocksOfSession)) / 2
		room = lockRoom{updates, updates, now}
	}
	admitted := room.updates > 0
	room.updates = max(0, room.updates-1)
	l[c.Session] = room
	return admitted
}
