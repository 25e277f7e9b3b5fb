package primcast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Epoch is the time in which one process leads its group. The zero Epoch is before all others. Epochs of
// different groups are not comparable.
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

// The states. A process is Candidate or Promised while its group changes the epoch, according to its own
// information.
const (
	Follower State = iota
	Primary
	Candidate
	Promised
	Retired // it was a member and has left: it sends nothing (roster.go)
)

var stateNames = [...]string{"follower", "primary", "candidate", "promised", "retired"}

func (s State) String() string { return stateNames[s] }

// peer is the state of one process as this process knows it. This process is a peer, too.
type peer struct {
	id     multicast.ProcessID
	group  *group
	member int  // index in group.members(); -1: it is no member
	left   bool // it has left its group
	linked bool // the link to it has started

	informed uint64 // the step in which it was last informed that it is no member
	accepted Epoch  // the highest epoch that it has accepted

	acked  Epoch  // its E_cur at its last acknowledgement
	length uint64 // it has acknowledged its T up to this index
	last   uint64 // index of the last acknowledged entry that concerns this process

	clock   multicast.Timestamp // min-clock of the peer (line 15): from epochs up to group.epoch
	later   epochClock          // its clock in a later epoch, which counts once group.epoch is that epoch
	covered multicast.Progress  // its state machine holds all deliveries up to here durably

	report // its last SILENT

	// Since the link to it started:
	coverageSent multicast.Progress  // the own coverage that was sent
	coverageNew  bool                // the own coverage has grown since
	clockSent    multicast.Timestamp // the highest own clock that was sent
	lengthSent   uint64              // the own T was acknowledged up to this index
	speak        bool                // the end of the step sends the own state
	fetching     bool                // it has been sent a request for entries of T that is not answered yet
	requestStep  uint64              // the step of that request
	resume       uint64              // own messages from this number on must be sent again; 0: none

	frame []byte // the frame of this step so far
	early int    // length of the packets at the start of frame that may leave early (overlap.go)
}

// report is the content of a SILENT.
type report struct {
	silent   time.Duration // when it reported that its primary is silent; 0: no report
	forgone  Epoch         // its E_prom at that time
	amnesiac bool          // it was amnesiac at that time (amnesia.go)
}

// epochClock is a clock ts that was sent in an epoch, when the sender's T ended at index last.
type epochClock struct {
	epoch Epoch
	ts    multicast.Timestamp
	last  uint64
}

// group is the state of a group as this process knows it.
type group struct {
	id multicast.GroupID
	seating
	ledger

	// The clocks that all unknown local timestamps of the group exceed (limits.go).
	quorumClock   multicast.Timestamp
	limit         multicast.Timestamp
	clocksChanged bool

	// Atomic global order (order.go).
	front     front              // the best front of a member
	frontSent front              // the last front of the own group that was sent to this group
	listens   bool               // its processes wait for the state of this process
	awaited   multicast.Position // the highest position of a message for which they may wait

	forgotten multicast.Progress // messages to this group up to here may be forgotten
	lastGone  uint64             // index in the own T of the last forgotten message to this group
	covered   multicast.Progress // covered by all members, except those that were left behind
	lastSeq   uint64             // number of the last own message to this group, since the start of this process
	lastOwn   uint64             // index in the own T of the last entry that concerns this group
}

// message is the state of a message in M, with its place in T.
type message struct {
	multicast.Message
	class   *class   // nil: its destinations are unknown
	started bool     // START(m) is known; without it only the id and the timestamps are
	own     bool     // this process has multicast m since its start
	prevs   []uint64 // of an own message: for each destination group, the number sent to it before
	prev    uint64   // the number that the sender used before for the own group; 0: unknown

	// The proposal of the own group's primary; index 0: no proposal is known.
	index  uint64 // index in T, from 1
	ts     multicast.Timestamp
	logged bool // it is in T; before that, the proposal waits for START(m)

	locals  []local             // decided local timestamps
	first   [2]local            // initial storage of locals
	bound   multicast.Timestamp // lower bound of the final timestamp (deliver.go); the final timestamp if decided
	decided bool                // the final timestamp is known

	delivered bool
	settled   bool   // it was delivered, since the start of this process or before
	slot      int    // index in its queue, until it is delivered
	keepers   int    // number of destination groups that do not cover it, after its delivery
	namedIn   *group // the group that last named it in its T
	stale     bool   // it was known and not proposed at the last ping
	mentions  int    // number of ledgers of other groups that name it
	requests  int    // number of requests for its START
}

// local is the local timestamp that a group has decided.
type local struct {
	group multicast.GroupID
	ts    multicast.Timestamp
}

// position returns the position of m; while m is not decided, a lower bound of it.
func (m *message) position() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// entry returns the packet with the entry of m in T. prev is the index of the entry before it that concerns
// the receiver.
func (m *message) entry(e Epoch, prev uint64) *entryPacket {
	return &entryPacket{epoch: e, index: m.index, prev: prev, ts: m.ts, id: m.ID}
}

// localTS returns local-ts of m in g (lines 9-11); 0 is the paper's ⊥.
func (m *message) localTS(g multicast.GroupID) multicast.Timestamp {
	for _, l := range m.locals {
		if l.group == g {
			return l.ts
		}
	}
	return 0
}

// finalTS returns final-ts of m (lines 12-14); 0 is the paper's ⊥.
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

// decide sets the local timestamp of m in g, which a quorum has acknowledged (line 10).
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

// learned updates the position and the queue of m after START(m) or a local timestamp has become known.
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
