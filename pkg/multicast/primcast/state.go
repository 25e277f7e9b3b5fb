package primcast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Epoch is the period of one leader in its group; the zero Epoch is before all. Epochs of different groups
// are not related.
type Epoch struct {
	Number uint64
	Leader multicast.ProcessID
}

// Compare orders the epochs of a group.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Number, other.Number), cmp.Compare(e.Leader, other.Leader))
}

// String returns "number/leader".
func (e Epoch) String() string { return fmt.Sprintf("%d/%d", e.Number, e.Leader) }

// State is the role of a process in its group (line 8).
type State uint8

// The states. A process is Candidate or Promised while its group changes its primary, as far
// as it knows.
const (
	Follower State = iota
	Primary
	Candidate
	Promised
	Retired // it was a member, and no longer is: it sends nothing (roster.go)
)

var stateNames = [...]string{"follower", "primary", "candidate", "promised", "retired"}

func (s State) String() string { return stateNames[s] }

// peer is the known state of one process, itself included.
type peer struct {
	id     multicast.ProcessID
	group  *group
	member int  // its index in group.members(); -1: it is none, not yet or no more
	left   bool // it was a member, and is none any more
	linked bool // the link to it has started

	informed uint64 // the step in which it was last informed that it is no member
	accepted Epoch  // that it has accepted last

	acked  Epoch  // E_cur when it acknowledged its T
	length uint64 // up to this entry
	last   uint64 // the last one of them that concerns this process

	clock   multicast.Timestamp // min-clock (line 15): sent in epochs up to group.epoch
	later   epochClock          // sent in a later one
	covered multicast.Progress  // its state machine holds all deliveries up to here durably

	report // its last one

	// Since the link to it started:
	coverageSent multicast.Progress  // of this process
	coverageNew  bool                // there is more of it
	clockSent    multicast.Timestamp // the highest one of this process
	lengthSent   uint64              // the own T is acknowledged up to here
	speak        bool                // the own state must be sent to it at the end of the step
	fetching     bool                // it got a request for T, and has not answered yet
	requestStep  uint64              // the step of that request
	resume       uint64              // own messages from this number on are to be sent again; 0: none

	frame []byte // of this step
	early int    // the length of the packets at its start that may leave early (overlap.go)
}

// report is a SILENT of a process.
type report struct {
	silent   time.Duration // when it last reported that its leader is silent; 0: no report
	forgone  Epoch         // E_prom at that report
	amnesiac bool          // at that report (amnesia.go)
}

// epochClock is a clock that was sent in an epoch, when T reached last.
type epochClock struct {
	epoch Epoch
	ts    multicast.Timestamp
	last  uint64
}

// group is the known state of a group.
type group struct {
	id multicast.GroupID
	seating
	ledger

	// The lowest clocks that new local timestamps exceed (limits.go).
	quorumClock   multicast.Timestamp
	limit         multicast.Timestamp
	clocksChanged bool

	// Atomic global order (order.go).
	front     front              // of its members
	frontSent front              // the last front of the own group that was sent to it
	listens   bool               // it waits for the state of this process
	awaited   multicast.Position // the highest position of a message that it may wait for

	forgotten multicast.Progress // up to here messages to it may be forgotten
	lastGone  uint64             // index in the own T of the last of them
	covered   multicast.Progress // by every member, except those that are left behind
	lastSeq   uint64             // of the last own message to it, in this life of the process
	lastOwn   uint64             // index in the own T of the last entry that concerns it
}

// message is the state of a message in M, and its place in T.
type message struct {
	multicast.Message
	class   *class   // nil: its destinations are unknown
	started bool     // START(m) is here; before that only the ID is known
	own     bool     // this process multicast it, in this life
	prevs   []uint64 // then: for each destination group, the number sent to it before
	prev    uint64   // the sender's previous number to this group; 0: unknown

	// The proposal of the own group's primary; index 0: none is known.
	index  uint64 // in T, from 1
	ts     multicast.Timestamp
	logged bool // in T; until then the proposal waits for START(m)

	locals  []local             // decided local timestamps
	first   [2]local            // room for them
	bound   multicast.Timestamp // see deliver.go; final-ts once that is known
	decided bool                // final-ts is known: bound

	delivered bool
	settled   bool   // it was delivered, in this life of the process or before
	slot      int    // among the pending ones, until it is delivered
	keepers   int    // groups that do not cover it after its delivery
	namedIn   *group // the group that named m last in its T
	stale     bool   // it was not proposed yet at the last ping
	mentions  int    // ledgers of other groups that name m
	requests  int    // number of requests for START
}

// local is a decided local timestamp.
type local struct {
	group multicast.GroupID
	ts    multicast.Timestamp
}

// position is the position at which m is delivered, or a lower bound of it.
func (m *message) position() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// entry is the entry of m in T. prev is the index of the entry before it that concerns the receiver.
func (m *message) entry(e Epoch, prev uint64) *entryPacket {
	return &entryPacket{epoch: e, index: m.index, prev: prev, ts: m.ts, id: m.ID}
}

// localTS is lines 9-11; 0 is the paper's bottom.
func (m *message) localTS(g multicast.GroupID) multicast.Timestamp {
	for _, l := range m.locals {
		if l.group == g {
			return l.ts
		}
	}
	return 0
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

// decide makes ts the local timestamp of m in g: a quorum acknowledged it (line 10).
func (c *delivery) decide(m *message, g *group, ts multicast.Timestamp) {
	if m.decided {
		return
	}
	if known := m.localTS(g.id); known != 0 {
		if known != ts {
			invariant.Broken("message %v: local timestamps %d and %d in group %d (I6)", m.ID, known, ts, g.id)
		}
		return
	}
	if m.locals == nil {
		m.locals = m.first[:0]
	}
	m.locals = append(m.locals, local{group: g.id, ts: ts})
	c.learned(m)
}

// learned updates the place of m after a local timestamp was decided or START came.
func (c *delivery) learned(m *message) {
	if m.decided {
		return
	}
	final := m.finalTS()
	m.decided = final != 0
	bound := max(m.bound, final)
	if m.started {
		for _, l := range m.locals {
			if m.To(l.group) {
				bound = max(bound, l.ts)
			}
		}
	}
	if bound != m.bound {
		m.bound = bound
		if m.index != 0 {
			c.queueOf(m).raised(m)
			c.moved(m)
		}
	}
}
