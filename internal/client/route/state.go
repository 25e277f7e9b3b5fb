package route

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// State is the information with which another router continues the sessions of this one.
type State struct {
	Seen string // the proofs of the client, as ask.Proofs.Token returns them
	// Running means that the router may have done more since. A router that continues does not use a number
	// that may have been used.
	Running    bool
	Partitions []PartitionState // those with a session or held inodes, by id
	Tickets    string           // the result of Tickets
}

// PartitionState is the part of a State for one partition.
type PartitionState struct {
	ID      uint16            `json:"id"`
	Session *SessionState     `json:"session,omitempty"`
	Held    map[posix.Ino]int `json:"held,omitempty"` // the number of holds of each inode
}

// SessionState has the newest numbers of a session.
type SessionState struct {
	ID     uint64 `json:"id"`
	Last   uint64 `json:"last"`   // number of the newest update
	Blocks uint64 `json:"blocks"` // counter of the newest block
	// Undecided are the counters of blocks that writes name which are to be sent again: KeepBlock was called
	// for each.
	Undecided []uint64 `json:"-"`
}

// maxNumber bounds the numbers of updates and blocks in a state. No session reaches it.
const maxNumber = 1 << 62

// Validate returns an error that names the value that is out of range.
func (s *PartitionState) Validate() error {
	if len(s.Held) > ask.MaxHeld {
		return fmt.Errorf("%d open inodes: at most %d", len(s.Held), ask.MaxHeld)
	}
	for ino, count := range s.Held {
		if count < 1 || ino.Partition() != s.ID {
			return fmt.Errorf("inode %v is open %d times", ino, count)
		}
	}
	of := s.Session
	if of != nil && (of.ID == 0 || of.ID >= 1<<48 || of.Last > maxNumber || of.Blocks > maxNumber) {
		return fmt.Errorf("session %d, update %d, block %d", of.ID, of.Last, of.Blocks)
	}
	return nil
}

// State returns the state of one partition. Proofs must be called after it, so that the proofs cover the
// state.
func (r *Router) State(partition uint16) PartitionState {
	p := r.partitions.All()[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PartitionState{ID: p.id, Held: maps.Clone(p.held)}
	if p.current != nil {
		s.Session = p.current.state()
	}
	return s
}

// Tickets returns the tickets of the client for a State, as text. running means that the router runs on: then
// the result has all tickets of held inodes, and some of the others.
func (r *Router) Tickets(running bool) string {
	var held []posix.Ino
	for _, p := range r.partitions.All() {
		held = append(held, p.heldNow()...)
	}
	if running {
		return r.net.tickets.save(held, maxSaved)
	}
	return r.net.tickets.save(held, 2*maxYoung)
}

func (s *session) state() *SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &SessionState{ID: s.id, Last: s.last, Blocks: s.lastBlock}
}

// adopt continues the sessions of a state; nil: there are none.
func (r *Router) adopt(s *State) error {
	if s == nil {
		return nil
	}
	seen, err := ask.ParseToken(s.Seen)
	if n := len(seen.Merged()); err != nil || n > len(r.partitions.All()) {
		return fmt.Errorf("client: the state to resume has seen %d partitions of %d: %w", n, len(r.partitions.All()), cmp.Or[error](err, posix.EINVAL))
	}
	if err := r.net.tickets.adopt(s.Tickets); err != nil {
		return fmt.Errorf("client: the state to resume: %w", err)
	}
	r.Observe(seen)
	for _, p := range r.partitions.All() { // the other router may have written to any of them
		p.durable.wrote(r.net.clock.of(p.id))
	}
	for i := range s.Partitions {
		of := &s.Partitions[i]
		p, err := r.partition(of.ID)
		if err != nil {
			return fmt.Errorf("client: the state to resume has partition %d, the cluster has not: mount the same cluster", of.ID)
		}
		p.adopt(of, s.Running)
	}
	return nil
}

// adopt continues the session of a state. running means that the client of the state may have used it
// afterwards.
func (p *partition) adopt(s *PartitionState, running bool) {
	if s.Held != nil {
		p.held = maps.Clone(s.Held)
	}
	if s.Session == nil {
		return
	}
	p.current = s.Session.session()
	if running {
		p.current.skip()
	}
	for _, counter := range s.Session.Undecided {
		p.current.keep(counter)
	}
}

// session returns the session that continues. Updates that had not ended are never executed.
func (s *SessionState) session() *session {
	return &session{
		id: s.ID, last: s.Last, done: s.Last, ended: map[uint64]struct{}{}, lastBlock: s.Blocks, undecided: map[uint64]int{},
	}
}

// skipped is an upper bound, by far, of the numbers of updates and blocks that were used since the state was
// made.
const skipped = 1 << 32

// skip skips all numbers that another client may have used in this session since its state was made. The
// updates that it had not finished are never executed once the replicas have the new numbers, and their
// blocks are garbage.
func (s *session) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += skipped
	s.done = s.last
	clear(s.ended)
	s.lastBlock += skipped
	clear(s.undecided)
}
