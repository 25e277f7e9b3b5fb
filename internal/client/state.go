package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// State is what another client needs to go on in the place of one: its sessions with all that hangs on them, and what it
// has seen. It is handed over by Suspend, or taken now and then by Snapshot in case that the process dies.
type State struct {
	Format  int    `json:"format"`  // stateFormat
	Cluster string `json:"cluster"` // whose sessions these are
	Seen    string `json:"seen"`    // as Token gives it
	// Running: the client may have done more since. Who goes on does not use a number that may have been used.
	Running    bool             `json:"running,omitempty"`
	Partitions []PartitionState `json:"partitions,omitempty"` // those of which there is something to say, by id
}

// PartitionState is the part of a State about one partition.
type PartitionState struct {
	ID      uint16            `json:"id"`
	Session *SessionState     `json:"session,omitempty"`
	Held    map[posix.Ino]int `json:"held,omitempty"` // how often each inode is open
	Next    posix.Ino         `json:"next,omitempty"` // the first reserved number of a new inode
	Left    uint64            `json:"left,omitempty"` // how many are reserved from there on
}

// SessionState is where the numbers of a session stand.
type SessionState struct {
	ID     uint64 `json:"id"`
	Last   uint64 `json:"last"`   // the number of the last update
	Blocks uint64 `json:"blocks"` // the counter of the last block
}

// stateFormat is raised when an older client would go wrong with a State.
const stateFormat = 1

// maxReserved bounds the reserved numbers that a State may tell of.
const maxReserved = 1 << 20

// DecodeState reads what json.Marshal made of a State, and checks all of it that can be checked without its cluster.
func DecodeState(b []byte) (*State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("client state: %w", err)
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("client state: format %d, this version knows %d: unmount, and mount with the new version", s.Format, stateFormat)
	}
	if _, err := ask.ParseToken(s.Seen); err != nil {
		return nil, fmt.Errorf("client state: what was seen: %w", err)
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if i > 0 && p.ID <= s.Partitions[i-1].ID {
			return nil, fmt.Errorf("client state: partition %d stands behind %d", p.ID, s.Partitions[i-1].ID)
		}
		if err := p.validate(); err != nil {
			return nil, fmt.Errorf("client state: partition %d: %w", p.ID, err)
		}
	}
	return &s, nil
}

func (p *PartitionState) validate() error {
	if len(p.Held) > ask.MaxHeld {
		return fmt.Errorf("%d open inodes: at most %d", len(p.Held), ask.MaxHeld)
	}
	for ino, count := range p.Held {
		if count < 1 || ino.Partition() != p.ID {
			return fmt.Errorf("inode %v is open %d times", ino, count)
		}
	}
	if p.Left > maxReserved || p.Left > 0 && p.Next.Partition() != p.ID {
		return fmt.Errorf("%d inodes from %v on are reserved", p.Left, p.Next)
	}
	s := p.Session
	if s != nil && (s.ID == 0 || s.ID >= 1<<48 || s.Last > maxNumber || s.Blocks > maxNumber) {
		return fmt.Errorf("session %d, update %d, block %d", s.ID, s.Last, s.Blocks)
	}
	return nil
}

// errSuspended says that another client goes on with the sessions of this one.
var errSuspended = errors.New("the client is suspended")

// Suspend stops the client without ending its sessions, and gives what another client needs to go on with them. Nothing is sent
// afterwards; operations fail with EIO, until Resume. None should be running: what is given up then may be executed or not.
func (c *Client) Suspend() *State {
	c.suspended.Store(true)
	c.lives.Load().end()
	c.running.Wait()
	s := c.Snapshot()
	s.Running = false
	return s
}

// Resume undoes Suspend. Another client may have gone on for a while with the State, but must have stopped.
func (c *Client) Resume() {
	for _, p := range c.partitions {
		p.numbers.drain()
		if s := p.session(); s != nil {
			s.skip()
		}
	}
	c.suspended.Store(false)
	c.start(true)
}

// Snapshot gives what another client needs to go on if this one dies.
func (c *Client) Snapshot() *State {
	s := &State{Format: stateFormat, Cluster: string(c.cfg.Cluster.Identity()), Running: true}
	for _, p := range c.partitions {
		if of := p.state(); of.Session != nil || len(of.Held) > 0 || of.Left > 0 {
			s.Partitions = append(s.Partitions, of)
		}
	}
	s.Seen = c.vector.snapshot().Token() // last: it covers what the rest is about
	return s
}

func (p *partition) state() PartitionState {
	s := PartitionState{ID: p.id}
	s.Next, s.Left = p.numbers.stock()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Held = maps.Clone(p.held)
	if p.current != nil {
		s.Session = p.current.state()
	}
	return s
}

func (n *numbers) stock() (first posix.Ino, count uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next, n.left
}

func (s *session) state() *SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &SessionState{ID: s.id, Last: s.last, Blocks: s.lastBlock}
}

// adopt goes on with a state; nil: there is none.
func (c *Client) adopt(s *State) error {
	if s == nil {
		return nil
	}
	if s.Cluster != string(c.cfg.Cluster.Identity()) {
		return fmt.Errorf("client: the state to resume is of a cluster made at %q, this one was made at %q: mount the same cluster", s.Cluster, c.cfg.Cluster.Identity())
	}
	seen, err := ask.ParseToken(s.Seen)
	if err != nil || len(seen) > len(c.partitions) {
		return fmt.Errorf("client: the state to resume has seen %d partitions of %d: %w", len(seen), len(c.partitions), cmp.Or[error](err, posix.EINVAL))
	}
	c.vector.merge(seen)
	for i := range s.Partitions {
		of := &s.Partitions[i]
		p, err := c.partition(of.ID)
		if err != nil {
			return fmt.Errorf("client: the state to resume has partition %d, the cluster has not: mount the same cluster", of.ID)
		}
		p.adopt(of, s.Running)
	}
	return nil
}

// adopt goes on with a state, from which the client may have gone on.
func (p *partition) adopt(s *PartitionState, running bool) {
	if !running {
		p.numbers.put(s.Next, s.Left)
	}
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
}

// session makes a session that goes on. What had not ended never will.
func (s *SessionState) session() *session {
	return &session{id: s.ID, last: s.Last, done: s.Last, ended: map[uint64]struct{}{}, lastBlock: s.Blocks, undecided: map[uint64]struct{}{}}
}

// Numbers of updates and blocks that may have been used without anybody knowing are far fewer than skipped. From maxNumber on a
// session cannot be gone on with; no session gets there.
const (
	skipped   = 1 << 32
	maxNumber = 1 << 62
)

// skip leaves out all numbers that another client may have used for this session. What it has begun and not ended is never
// executed once that was said to the replicas, and its blocks are garbage.
func (s *session) skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += skipped
	s.done = s.last
	clear(s.ended)
	s.lastBlock += skipped
	clear(s.undecided)
}
