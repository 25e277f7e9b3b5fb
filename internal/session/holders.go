package session

import "github.com/globalfs/globalfs/internal/posix"

// holders counts the open sessions that hold an inode. It is derived from the sessions and no part of the
// state. Its cost depends on the lists of the renewals only, not on all inodes that clients hold.
type holders struct {
	count    map[posix.Ino]int
	released []posix.Ino // no session holds them any more; since TakeReleased
}

func (h *holders) add(held []posix.Ino) {
	for _, ino := range held {
		h.count[ino]++
	}
}

func (h *holders) remove(held []posix.Ino) {
	for _, ino := range held {
		if h.count[ino]--; h.count[ino] == 0 {
			delete(h.count, ino)
			h.released = append(h.released, ino)
		}
	}
}

// IsHeld reports whether a session holds an inode.
func (s *Sessions) IsHeld(ino posix.Ino) bool { return s.holders.count[ino] > 0 }

// TakeReleased returns the inodes that the last session has released since the last call. Meanwhile a session
// may hold one of them again.
func (s *Sessions) TakeReleased() (released []posix.Ino) {
	released, s.holders.released = s.holders.released, nil
	return released
}
