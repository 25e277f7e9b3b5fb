package session

import (
	"slices"
	"time"
)

// Expiry ends a session unless the session was renewed more often than Renewals.
type Expiry struct{ Session, Renewals uint64 }

// startLease gives x its full lease by this replica's clock.
func (s *Sessions) startLease(x *session, now time.Duration) {
	x.deadline = now + s.lease + s.stagger
	if s.expireAt == 0 || x.deadline < s.expireAt {
		s.expireAt = x.deadline
	}
}

// Wake returns the time of the next call of Silent; 0: none is needed.
func (s *Sessions) Wake() time.Duration { return s.expireAt }

// Silent returns the sessions whose leases have run out by this replica's clock, in the order of their
// numbers. Each is returned again one lease later, if its end was not ordered by then.
func (s *Sessions) Silent(now time.Duration) (silent []Expiry) {
	if s.expireAt == 0 || now < s.expireAt {
		return nil
	}
	s.expireAt = 0
	ids := make([]uint64, 0, len(s.open))
	for id := range s.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		x := s.open[id]
		if now >= x.deadline {
			silent = append(silent, Expiry{Session: id, Renewals: x.renewals})
			x.deadline = now + s.lease
		}
		if s.expireAt == 0 || x.deadline < s.expireAt {
			s.expireAt = x.deadline
		}
	}
	return silent
}

// IsSilent reports whether an expiry still holds when it is ordered: the session was not renewed since.
func (s *Sessions) IsSilent(e Expiry) bool {
	x := s.open[e.Session]
	return x != nil && x.renewals == e.Renewals
}
