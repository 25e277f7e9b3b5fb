package primcast

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Epoch is the reign of one leader in its group; the zero Epoch is before all. Epochs of
// different groups are not related.
type Epoch struct {
	Number uint64
	Leader multicast.ProcessID
}

// Compare orders the epochs of a group.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Number, other.Number), cmp.Compare(e.Leader, other.Leader))
}

// String gives "number/leader".
func (e Epoch) String() string { return fmt.Sprintf("%d/%d", e.Number, e.Leader) }

// State is what a process is in its group (line 8).
type State uint8

// The states. A process is Candidate or Promised only while its group changes its primary.
const (
	Follower State = iota
	Primary
	Candidate
	Promised
)

var stateNames = [...]string{"follower", "primary", "candidate", "promised"}

func (s State) String() string { return stateNames[s] }

// peer is what a process knows of one process, itself included.
type peer struct {
	id     multicast.ProcessID
	group  *group
	member int // its index in group.members

	clock   multicast.Timestamp // min-clock (line 15); of members of the own group
	covered multicast.Position  // its state machine holds all deliveries up to here durably

	// Since the link to it started:
	told multicast.Position  // the own coverage that it was told
	said multicast.Timestamp // the highest own clock that it was told

	frame []byte // of this step
}

// group is a group with what is known of it.
type group struct {
	id      multicast.GroupID
	members []*peer
	quorum  int

	covered multicast.Position // by every member
	kept    queue              // delivered messages that are kept until this group covers them
	lastSeq uint64             // of the last own message to it, in this life of the process
}

// message is what M says of a message, and its place in T.
type message struct {
	multicast.Message
	started bool   // START(m) is here; before that only the ID is known
	prev    uint64 // the sender's previous number to this group; 0: unknown

	// The proposal of the own group's primary; index 0: none is known.
	index  uint64 // in T, from 1
	epoch  Epoch
	ts     multicast.Timestamp
	logged bool // in T; until then the proposal waits for START(m)

	tallies []tally
	bound   multicast.Timestamp // see deliver.go; final-ts once that is known
	decided bool                // final-ts is known: bound

	delivered bool
	slot      int // in the queue that it is in
	asked     int // how often START was asked for
}

// position is where m is delivered, or a lower bound of that.
func (m *message) position() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// tally counts the ACKs of a group for one timestamp of one epoch.
type tally struct {
	group *group
	epoch Epoch
	ts    multicast.Timestamp
	acked uint64 // a bit for each member
}

func (t *tally) decided() bool { return bits.OnesCount64(t.acked) >= t.group.quorum }

// count puts the ACK of q into M and reports whether it decided a local timestamp.
func (m *message) count(q *peer, e Epoch, ts multicast.Timestamp) bool {
	for i := range m.tallies {
		t := &m.tallies[i]
		if t.group != q.group || t.epoch != e {
			continue
		}
		if t.ts != ts {
			invariant.Check(false, "message %v: %v proposed %d and %d in group %d", m.ID, e, t.ts, ts, t.group.id)
		}
		before := t.decided()
		t.acked |= 1 << q.member
		return !before && t.decided()
	}
	m.tallies = append(m.tallies, tally{group: q.group, epoch: e, ts: ts, acked: 1 << q.member})
	return m.tallies[len(m.tallies)-1].decided()
}

// localTS is lines 9-11; 0 is the paper's bottom.
func (m *message) localTS(g multicast.GroupID) multicast.Timestamp {
	var local multicast.Timestamp
	for i := range m.tallies {
		t := &m.tallies[i]
		if t.group.id != g || !t.decided() {
			continue
		}
		if local != 0 && local != t.ts {
			invariant.Check(false, "message %v: local timestamps %d and %d in group %d (I6)", m.ID, local, t.ts, g)
		}
		local = t.ts
	}
	return local
}

// finalTS is lines 12-14; 0 is the paper's bottom.
func (m *message) finalTS() multicast.Timestamp {
	if !m.started {
		return 0
	}
	var final multicast.Timestamp
	for _, g := range m.Dest {
		local := m.localTS(g)
		if local == 0 {
			return 0
		}
		final = max(final, local)
	}
	return final
}
