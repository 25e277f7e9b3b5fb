package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"sync"

	"github.com/globalfs/globalfs/internal/ask"
)

// sealer seals vectors with the vector keys that the servers of a cluster share. The keys are combined with
// the identity of the cluster, so that seals of an earlier cluster on the same servers are invalid.
type sealer struct {
	keys    func() [][]byte // the present vector keys; nil: there are none
	cluster []byte

	mu   sync.Mutex
	from [][]byte // the keys from which own was derived
	own  ask.Keys // GUARDED_BY mu
}

func (s *sealer) current() ask.Keys {
	if s.keys == nil {
		return nil
	}
	now := s.keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(now) == 0 {
		return s.own // without the earlier keys of the file, the server would trust the vectors of its clients
	}
	if len(now) != len(s.from) || &now[0] != &s.from[0] {
		s.from, s.own = now, nil
		for _, key := range now {
			mac := hmac.New(sha256.New, key)
			mac.Write(s.cluster)
			s.own = append(s.own, mac.Sum(nil))
		}
	}
	return s.own
}

// Seal implements ask.Sealer.
func (s *sealer) Seal(vector []byte) []byte { return s.current().Seal(vector) }

// Verify implements ask.Sealer.
func (s *sealer) Verify(vector, tag []byte) bool { return s.current().Verify(vector, tag) }
