package session

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// Usage has the numbers of sessions and held inodes of one client in the partition.
type Usage struct {
	Sessions int
	Held     int // inodes, of all sessions
}

// Usage returns the usage of a client.
func (s *Sessions) Usage(owner string) Usage { return s.usage[owner] }

// Held returns the number of inodes that a session holds.
func (s *Sessions) Held(id uint64) int {
	if x := s.open[id]; x != nil {
		return len(x.held)
	}
	return 0
}

// HeldBy returns the inodes that a session holds; none if the client may not use the session. The caller must
// not change them.
func (s *Sessions) HeldBy(id uint64, client *ask.Client) []posix.Ino {
	if x := s.open[id]; x != nil && x.admits(client) {
		return x.held
	}
	return nil
}

// count adds sessions and inodes to the usage of a client; negative numbers subtract.
func (s *Sessions) count(owner string, sessions, held int) {
	u := s.usage[owner]
	u.Sessions += sessions
	u.Held += held
	if u == (Usage{}) {
		delete(s.usage, owner)
		return
	}
	s.usage[owner] = u
}

// Place returns the place of the order that a session had seen at its last renewal; 0: it is not open.
func (s *Sessions) Place(id uint64) uint64 {
	if x := s.open[id]; x != nil {
		return x.renewalPlace
	}
	return 0
}
