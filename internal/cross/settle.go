package cross

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// # Commands after the loss of a majority
//
// A partition that has lost the majority of its replicas is short: its state may lack its last entries. The
// states of all partitions are then no consistent cut, and the coordinator's state does not always have the
// outcome of a command. Settle ends each command alike at all parties that can execute it:
//
//	S1  An OUTCOME in any surviving log has it. The coordinator had ordered the decision before a party could
//	    propose OUTCOME (D1), so the entry is true, also if no quorum has acknowledged it.
//	S2  A vector shows that some state follows from the commit: the vote place of a party is open in it, or
//	    the party has marked the command (V, M). The command is committed. Its votes are those that the
//	    parties store until they have executed it (X3).
//	S3  The coordinator's state has the outcome: it counts.
//	S4  Otherwise the command has no effect where it is open. If a party has concluded it, and no log has the
//	    outcome, then the outcome is unknown, and it is reported so. Else the command is aborted.
//
// S1 and S2 come before S3: the log of a short coordinator may end with a DECIDE or ABORT that no quorum has
// acknowledged, and that another one has replaced in the true order. Then the coordinator's state has the
// wrong outcome. It is reported (Ended.Lacking), and package meta reconciles the trees. For the same reason
// an abort by a short coordinator counts as unknown if a party has concluded the command.
//
// Claim: if a party has executed a command, no party that can execute it aborts it, except in the reported
// cases.
//
//  1. Let party p have executed the command in its surviving state. If p is the coordinator, S3 counts until
//     all parties have confirmed, unless S1 shows that p has executed a wrong entry.
//  2. If p is another party and has executed OUTCOME, its vector holds the vote place of each other party
//     open or counts the end of the command there (V). In the first case S2 counts. In the second case the
//     other party q had executed its outcome, and its surviving state lacks that entry: q is short. S1 counts
//     as long as a log has the entry; else S4 reports the command, because p has concluded it.
//  3. A party that cannot execute the command lacks its vote, or the votes of others are lost. The party is
//     reported, and package meta reconciles the trees.

// Decision is the outcome of a command in an entry of a log.
type Decision struct {
	Commit bool
	Votes  [][]byte // of all parties
}

// DecisionOf reads an entry of an own order. found is false for entries without a decision.
func DecisionOf(payload []byte) (id multicast.MessageID, d Decision, found bool) {
	e, err := order.DecodeEntry(payload)
	if err != nil || e.Kind != EntryOutcome {
		return id, d, false
	}
	r := varint.NewReader(e.Body)
	o := readOutcome(r)
	if r.Done() != nil {
		return id, d, false
	}
	o = *o.clone()
	return o.id, Decision{Commit: o.commit, Votes: o.votes}, true
}

// Outcome is the end of a command.
type Outcome string

// The outcomes. Unknown: a party has concluded the command, and it is dropped at the others.
const (
	Committed Outcome = "committed"
	Aborted   Outcome = "aborted"
	Unknown   Outcome = "unknown"
)

// Ended is a command that Settle has ended.
type Ended struct {
	ID          multicast.MessageID
	Parties     []uint16
	Coordinator uint16
	Command     meta.Command
	Outcome     Outcome
	Executed    []uint16 // committed: the parties that have executed it now
	Lacking     []uint16 // the parties whose states do not have the outcome, and cannot get it
}

// Settle ends all commands of several partitions in the states of all partitions, indexed by partition, of
// which some are short. decisions are those of all surviving logs. Afterwards the partitions remember no
// command and no position of a class, and their vectors stand in new histories, which follow all that any
// state has seen; hash distinguishes the histories of different recoveries.
func Settle(states []State, short []bool, decisions map[multicast.MessageID]Decision, hash uint32) (all []Ended, err error) {
	t := &settlement{states: states, short: short, decisions: decisions}
	if err := t.load(); err != nil {
		return nil, err
	}
	done := map[multicast.MessageID]bool{}
	for p := range states {
		for _, x := range t.tables[p].all() {
			if done[x.id] {
				continue
			}
			done[x.id] = true
			if e, open := t.end(x, uint16(p)); open {
				all = append(all, e)
			}
		}
	}
	seen := make(ask.Vector, len(states))
	for p := range states {
		own := t.vectors[p].Of(uint16(p))
		for _, v := range t.vectors {
			own.History = max(own.History, v.Of(uint16(p)).History)
		}
		seen[p] = ask.Seen{History: own.NextHistory(hash), Count: own.Count, Known: own.Count}
	}
	for p := range states {
		states[p].forget(seen)
	}
	return all, nil
}

// settlement is the state of Settle: by partition the commands, the vectors and the positions of the classes.
type settlement struct {
	states    []State
	short     []bool
	decisions map[multicast.MessageID]Decision
	tables    []*table
	vectors   []ask.Vector
	relayed   []multicast.Progress
}

func (t *settlement) load() error {
	for p := range t.states {
		keys := t.states[p].Keys
		table, err := storedTable(keys)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		v, err := StoredVector(keys)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		relayed, err := Relayed(keys)
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		t.tables, t.vectors, t.relayed = append(t.tables, table), append(t.vectors, v), append(t.relayed, relayed)
	}
	return nil
}

// at returns a command at a party; nil: the party does not list it.
func (t *settlement) at(p uint16, id multicast.MessageID) *command {
	if int(p) >= len(t.tables) {
		return nil
	}
	return t.tables[p].find(id)
}

// hasPassed reports whether a party has relayed a command.
func (t *settlement) hasPassed(p uint16, x *command) bool {
	if int(p) >= len(t.relayed) {
		return false
	}
	dest := make([]multicast.GroupID, len(x.parties))
	for i, q := range x.parties {
		dest[i] = multicast.GroupID(q)
	}
	return x.position.Compare(t.relayed[p].Of(multicast.ClassOf(dest))) <= 0
}

// outcome finds the outcome of a command, and the votes of a committed one; nil: they are lost.
func (t *settlement) outcome(x *command) (Outcome, [][]byte) {
	if d, found := t.decisions[x.id]; found && d.Commit { // S1
		return Committed, d.Votes
	} else if found {
		return Aborted, nil
	}
	c := t.at(x.coordinator, x.id)
	if c != nil && c.phase == committed { // S3, which agrees with S2
		return Committed, c.votes
	}
	if t.isSeen(x) { // S2
		return Committed, t.storedVotes(x)
	}
	if c != nil && c.phase == aborted && !t.short[x.coordinator] {
		return Aborted, nil
	}
	for _, p := range x.parties { // S4
		if t.at(p, x.id) == nil && t.hasPassed(p, x) {
			return Unknown, nil
		}
	}
	return Aborted, nil
}

// isSeen reports whether some state follows from the commit of a command (S2).
func (t *settlement) isSeen(x *command) bool {
	for _, p := range x.parties {
		y := t.at(p, x.id)
		if y == nil || y.place == 0 {
			continue
		}
		own := t.vectors[p].Of(p)
		for q, v := range t.vectors {
			seen := v.Of(p)
			if y.marked || q != int(p) && seen.History == own.History && seen.IsOpen(y.place) {
				return true
			}
		}
	}
	return false
}

// storedVotes returns the votes that all parties of a command store; nil if one is missing.
func (t *settlement) storedVotes(x *command) (votes [][]byte) {
	for _, p := range x.parties {
		y := t.at(p, x.id)
		if y == nil || y.phase != voted {
			return nil
		}
		b := readBallot(varint.NewReader(y.vote))
		votes = append(votes, b.vote)
	}
	return votes
}

// end ends a command that partition p lists. It reports whether the command was open somewhere, cannot be
// executed somewhere, or has an unknown outcome.
func (t *settlement) end(x *command, p uint16) (e Ended, open bool) {
	outcome, votes := t.outcome(x)
	open = outcome == Unknown
	e = Ended{ID: x.id, Parties: x.parties, Coordinator: x.coordinator, Outcome: outcome}
	for _, q := range append([]uint16{p}, x.parties...) {
		if y := t.at(q, x.id); y != nil && e.Command.Op == 0 {
			e.Command, _ = meta.Pending(t.states[q].Machine, y.number)
		}
	}
	for _, q := range x.parties {
		y := t.at(q, x.id)
		switch {
		case y == nil && outcome == Committed && !t.hasPassed(q, x):
			e.Lacking, open = append(e.Lacking, q), true
		case y != nil && (y.phase == aborted && outcome == Committed || y.phase == committed && outcome == Aborted):
			e.Lacking, open = append(e.Lacking, q), true
		case y == nil || !y.isUndecided():
		case outcome != Committed:
			open = true
			t.states[q].Machine.Abort(y.number)
		default:
			open = true
			if t.execute(q, y, votes) {
				e.Executed = append(e.Executed, q)
			} else {
				e.Lacking = append(e.Lacking, q)
			}
		}
	}
	slices.Sort(e.Lacking)
	return e, open
}

// execute executes a committed command at a party. It reports whether the party could.
func (t *settlement) execute(p uint16, x *command, votes [][]byte) bool {
	m := t.states[p].Machine
	if x.phase != voted || len(votes) != len(x.parties) {
		m.Abort(x.number)
		return false
	}
	return m.Decide(x.number, votes, t.vectors[p].Of(p).Count).Code == posix.OK
}
