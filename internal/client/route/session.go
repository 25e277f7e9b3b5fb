package route

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/globalfs/globalfs/internal/ask"
)

// session has the numbers of this client's updates and blocks in one partition.
type session struct {
	id uint64 // below 2^48, not 0

	mu    sync.Mutex
	last  uint64              // number of the newest update
	done  uint64              // all updates up to this number have ended
	ended map[uint64]struct{} // numbers above done of updates that have ended
	moved chan struct{}       // GUARDED_BY mu; closed when done grows; nil: no waiters

	lastBlock uint64         // counter of the newest block
	undecided map[uint64]int // counters of blocks whose writes have not ended, with the number of these writes
}

// newSession makes a session with a random id of 48 bits. Two clients of a partition are not expected to
// choose the same id in its lifetime.
func newSession() *session {
	var b [8]byte
	for {
		rand.Read(b[2:]) // never fails
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return &session{id: id, ended: map[uint64]struct{}{}, undecided: map[uint64]int{}}
		}
	}
}

// begin returns the number of a new update. It waits while too many updates are under way.
func (s *session) begin(ctx context.Context) (uint64, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		s.mu.Lock()
		if s.last-s.done < ask.MaxOutstanding {
			s.last++
			defer s.mu.Unlock()
			return s.last, nil
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// finish declares that the outcome of update seq is known, or not needed. A later update reports that to the
// replicas. From then on, seq is never executed if it was not executed before.
func (s *session) finish(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[seq] = struct{}{}
	before := s.done
	for {
		if _, ok := s.ended[s.done+1]; !ok {
			break
		}
		s.done++
		delete(s.ended, s.done)
	}
	if s.done > before && s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// guessBits is the number of random bits in the counter of a block. Storage servers return a block to every
// client that knows its id, and the session in the id is not secret: every user who may read a file of this
// client knows it.
const guessBits = 24

// numberBlocks returns the first of count successive counters for the blocks of a new write. It cannot be
// predicted. The blocks are undecided until decided is called.
func (s *session) numberBlocks(count int) (first uint64) {
	var guess [4]byte
	rand.Read(guess[:]) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	first = (s.lastBlock>>guessBits+1)<<guessBits | uint64(binary.BigEndian.Uint32(guess[:])>>(32-guessBits))
	s.lastBlock = first + uint64(count) - 1
	s.undecided[first]++
	return first
}

// decided declares that no caller waits any more for the write that names the blocks from first on. The
// outcome of the write may be unknown: after the next renewal, which has the new horizon, it has no effect.
func (s *session) decided(first uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.undecided[first]--; s.undecided[first] <= 0 {
		delete(s.undecided, first)
	}
}

// keep adds one more write to an undecided block.
func (s *session) keep(counter uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undecided[counter]++
}

// horizon returns the counter below which all blocks are decided.
func (s *session) horizon() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	horizon := s.lastBlock + 1
	for first := range s.undecided {
		horizon = min(horizon, first)
	}
	return horizon
}

// finished returns the number up to which all updates have ended.
func (s *session) finished() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}
