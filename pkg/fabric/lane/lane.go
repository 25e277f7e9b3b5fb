// Package lane is the initiator's side of the queues of a fabric, for cores that are stepped: a Lane posts
// operations to one region of one peer, matches their completions, and resets the queue after a failure.
//
// A failed operation breaks its lane (fabric Q4). The lane is reset when all of its operations have ended and
// its owner has more to post. The time before a reset doubles with each failure in sequence.
package lane

import (
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
)

// maxFailures bounds how often the time before a reset doubles.
const maxFailures = 5

// Flight is an operation without a completion. Mark and Term belong to the owner of the lane.
type Flight struct {
	Kind  fabric.Kind
	Mark  uint64
	Term  uint32
	token uint64
	void  bool // it counts as failed, however it ends
}

// Owner learns the end of each operation of a lane, except for resets. After Failed the owner posts nothing
// until Ready returns true.
type Owner interface {
	Landed(f Flight, c *fabric.Completion)
	Failed(f Flight)
}

// Set is all lanes of one process. Only the step of that process uses it.
type Set struct {
	retryAfter time.Duration
	fenced     bool
	now        time.Duration
	ops        *[]fabric.Op
	wake       *time.Duration
	token      uint64
	tokens     map[uint64]*Lane
}

// NewSet makes a set without lanes. A broken lane rests for retryAfter before its first reset.
func NewSet(retryAfter time.Duration) *Set {
	return &Set{retryAfter: retryAfter, tokens: map[uint64]*Lane{}}
}

// Fence has each lane that is made from now on reset before its first operation: nothing that this process
// has posted in an earlier life can be executed after that (fabric Q5).
func (s *Set) Fence() { s.fenced = true }

// Begin starts a step at a time. Post appends to ops, WakeAt sets wake.
func (s *Set) Begin(now time.Duration, ops *[]fabric.Op, wake *time.Duration) {
	s.now, s.ops, s.wake = now, ops, wake
}

// WakeAt asks for a step at a time or earlier.
func (s *Set) WakeAt(at time.Duration) {
	if at = max(at, s.now+1); *s.wake == 0 || at < *s.wake {
		*s.wake = at
	}
}

// Complete consumes the completions of a step. It returns the numbers of completions that belong to no
// operation, and of failed operations.
func (s *Set) Complete(done []fabric.Completion) (unknown, failed int) {
	for i := range done {
		d := &done[i]
		l := s.tokens[d.Token]
		if l == nil {
			unknown++
			continue
		}
		delete(s.tokens, d.Token)
		f := l.flights[0]
		invariant.Check(f.token == d.Token, "operation %d has ended before %d of the same queue", d.Token, f.token)
		l.flights = l.flights[1:]
		switch {
		case f.Kind == fabric.Reset:
			l.resetting, l.broken = false, d.Status != fabric.OK || f.void
			l.rest()
		case d.Status == fabric.OK && !f.void:
			l.failures = 0
			l.owner.Landed(f, d)
		default:
			failed++
			l.broken = true
			l.rest()
			l.owner.Failed(f)
		}
	}
	return unknown, failed
}

// Lane is a queue of the fabric as its initiator uses it.
type Lane struct {
	set       *Set
	peer      fabric.NodeID
	region    fabric.RegionID
	owner     Owner
	flights   []Flight
	broken    bool
	resetting bool
	retryAt   time.Duration
	failures  int // since an operation has succeeded
}

// New makes a lane to a region of a peer.
func (s *Set) New(peer fabric.NodeID, region fabric.RegionID, owner Owner) *Lane {
	return &Lane{set: s, peer: peer, region: region, owner: owner, broken: s.fenced}
}

// Break treats the operations under way as failed, and has the lane reset before the next one. The peer has
// restarted: all effects are gone with its memory.
func (l *Lane) Break() {
	l.broken = true
	for i := range l.flights {
		l.flights[i].void = true
	}
	l.retryAt = l.set.now
}

// Move breaks the lane, and lets it lead to another node.
func (l *Lane) Move(peer fabric.NodeID) {
	l.Break()
	l.peer = peer
}

// Busy reports whether operations are under way on a lane that works.
func (l *Lane) Busy() bool { return len(l.flights) > 0 && !l.broken }

// Ready reports whether operations may be posted. If the lane is broken, Ready resets it when the time has
// come.
func (l *Lane) Ready() bool {
	switch {
	case !l.broken:
		return true
	case l.resetting || len(l.flights) > 0:
	case l.set.now < l.retryAt:
		l.set.WakeAt(l.retryAt)
	default:
		l.resetting = true
		l.Post(fabric.Op{Kind: fabric.Reset}, 0, 0)
	}
	return false
}

// Settled reports whether all operations have ended, and none of them can land any more.
func (l *Lane) Settled() bool { return l.Ready() && len(l.flights) == 0 }

// Post posts an operation. It sets Token, Peer and Region of op.
func (l *Lane) Post(op fabric.Op, mark uint64, term uint32) {
	s := l.set
	s.token++
	op.Token, op.Peer, op.Region = s.token, l.peer, l.region
	l.flights = append(l.flights, Flight{Mark: mark, Term: term, token: s.token, Kind: op.Kind})
	s.tokens[s.token] = l
	*s.ops = append(*s.ops, op)
}

// rest sets the time of the next reset of a broken lane.
func (l *Lane) rest() {
	if !l.broken {
		return
	}
	l.retryAt = l.set.now + l.set.retryAfter<<l.failures
	if l.failures < maxFailures && len(l.flights) == 0 {
		l.failures++
	}
}
