package session

// Usage is what the sessions of one client hold in the partition.
type Usage struct {
	Sessions int
	Held     int // inodes, of all sessions
}

// Usage returns what the sessions of a client hold.
func (s *Sessions) Usage(owner string) Usage { return s.usage[owner] }

// Held returns the number of inodes that a session holds.
func (s *Sessions) Held(id uint64) int {
	if x := s.open[id]; x != nil {
		return len(x.held)
	}
	return 0
}

// count adds a session and inodes to what a client holds; negative numbers take them away.
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
