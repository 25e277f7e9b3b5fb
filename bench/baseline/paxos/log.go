package paxos

import "slices"

// Log is one member's part of the group's log: multi-Paxos in its first ballot, for ever. The leader seals
// all that is proposed in a step into the next instance and sends it in ACCEPT, without waiting for earlier
// instances; a member that has it says ACCEPTED to all, and everybody learns an instance when a
// majority has accepted it. Links are FIFO, so ACCEPTs come in order and ACCEPTED is one
// number: all up to an instance. An ACCEPT is its leader's ACCEPTED, too.
//
// Invariants: next <= decided+1 <= accepted+1; waiting holds the batches of next..accepted.
type Log struct {
	self, quorum int
	accepted     []uint64 // by member: all up to this instance; the leader is 0
	decided      uint64
	next         uint64 // to learn
	told         uint64 // ACCEPTED that was said
	waiting      [][]byte
	head         int // of waiting
	batch        []byte
	learned      []byte   // the last answer of Next
	spare        [][]byte // batches of the leader, for reuse
	scratch      []uint64
}

// maxSpare is how many batches are kept for reuse.
const maxSpare = 64

// NewLog makes the part of one of the members; the leader is 0.
func NewLog(self, members int) *Log {
	return &Log{self: self, quorum: members/2 + 1, accepted: make([]uint64, members), scratch: make([]uint64, members), next: 1}
}

// Propose, at the leader, adds a command to the next instance. Its bytes are copied.
func (l *Log) Propose(command []byte) { l.batch = append(l.batch, command...) }

// Seal, at the leader, makes an instance of the proposals. It gives its number, and the bytes that followers
// are to accept; 0 if nothing was proposed.
func (l *Log) Seal() (instance uint64, batch []byte) {
	if len(l.batch) == 0 {
		return 0, nil
	}
	batch = l.batch
	l.accepted[0]++
	l.waiting = append(l.waiting, batch)
	l.batch = nil
	if n := len(l.spare); n > 0 {
		l.batch, l.spare = l.spare[n-1][:0], l.spare[:n-1]
	}
	l.count()
	return l.accepted[0], batch
}

// Accept, at a follower, takes the leader's next instance; false if it is not the next. The log keeps batch.
func (l *Log) Accept(instance uint64, batch []byte) bool {
	if l.self == 0 || instance != l.accepted[0]+1 || len(batch) == 0 {
		return false
	}
	l.accepted[0], l.accepted[l.self] = instance, instance
	l.waiting = append(l.waiting, batch)
	l.count()
	return true
}

// Accepted takes the instance up to which a follower has accepted; false if this is impossible.
func (l *Log) Accepted(member int, upTo uint64) bool {
	if member == 0 || member == l.self || upTo <= l.accepted[member] || l.self == 0 && upTo > l.accepted[0] {
		return false
	}
	l.accepted[member] = upTo
	l.count()
	return true
}

// count moves decided to the last instance that a majority has accepted. A follower may hear of instances
// that have yet to come.
func (l *Log) count() {
	copy(l.scratch, l.accepted)
	slices.Sort(l.scratch)
	l.decided = max(l.decided, min(l.scratch[len(l.scratch)-l.quorum], l.accepted[l.self]))
}

// Tell gives the last instance that a follower has accepted and not announced yet; 0 if there is none.
func (l *Log) Tell() uint64 {
	if l.self == 0 || l.told == l.accepted[l.self] {
		return 0
	}
	l.told = l.accepted[l.self]
	return l.told
}

// Next gives the commands of the next decided instance, nil if there is none. They are valid
// until the next call.
func (l *Log) Next() []byte {
	if l.self == 0 && l.learned != nil && len(l.spare) < maxSpare {
		l.spare = append(l.spare, l.learned)
	}
	l.learned = nil
	if l.next > l.decided {
		return nil
	}
	l.learned = l.waiting[l.head]
	l.waiting[l.head] = nil
	l.head++
	l.next++
	if 2*l.head >= len(l.waiting) {
		n := copy(l.waiting, l.waiting[l.head:])
		clear(l.waiting[n:])
		l.waiting, l.head = l.waiting[:n], 0
	}
	return l.learned
}

// Waiting returns the number of instances that are accepted here and not learned.
func (l *Log) Waiting() int { return len(l.waiting) - l.head }
