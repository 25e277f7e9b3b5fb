// Package fastcast is FastCast (Coelho, Schiper and Pedone, DSN 2017; thesis section 4.6.1): the classic
// protocol of replicated timestamps (package classic) with an optimistic path beside it, on the same
// consensus (package paxos). It is for benchmarks only.
//
//  1. The sender sends START(m) to every process of every destination group.
//  2. A leader guesses the local timestamp of m, from a soft clock of its own, and sends it to the leaders of
//     the other destination groups (SOFT). At the same time it proposes m to its group. The group's log
//     decides the local timestamp, and the group learns it in step 3.
//  3. A leader with the guesses of all proposes the highest to its group as the optimistic final timestamp
//     (SYNC-SOFT), which is decided, and moves the group's clock, in step 4.
//  4. Meanwhile each member has sent the decided local timestamp to processes of the other destination groups
//     when it learned it (HARD): the leader to all of them, the others to their counterparts, which have the
//     same place among the members of their group.
//
// A process that has all decided local timestamps knows the final one, the highest. If it is the optimistic
// one, the group's clock is at or above it once SYNC-SOFT is decided, and m can be delivered: four
// communication steps after the multicast. A message to one group needs the first consensus only: three.
//
// If it is not, the leader proposes the final timestamp to its group in one more consensus (SYNC-HARD): six
// steps after the multicast.
//
// New makes FastCast at its best, as a comparison should be: a fixed leader never guesses wrong. The log
// decides in the order of its proposals, so its soft clock, which goes through the same proposals (I5), has
// the later value of the group's clock, and there is no SYNC-HARD. With this soft clock the failure-free
// latency is six steps: only a message that reaches a leader before the SYNC-SOFT of m is proposed, two steps
// after m was multicast, can be ordered before m, and takes four steps.
//
// NewLate makes FastCast with a soft clock that follows decisions only, and is two steps late. It guesses
// wrong whenever a proposal is under way that moves the clock. A chain of such messages takes ten steps; the
// thesis gives eight as failure-free latency.
//
// Followers are faster. With three members they learn decisions a step before their leader does. So their
// counterparts have the decisions in step 3, as they have SYNC-SOFT. And if places stand for regions, it has
// crossed none: the leaders being in one region, a follower waits for its own leader only (T 4.5.4). A HARD
// of every member to every process would bring nothing more there, and cost three times the packets; as it
// is, a follower has each timestamp twice, and the first counts.
//
// Invariant:
//
//	I5  soft, at a leader of New, is the value of the group's clock once all proposals are decided.
package fastcast

import (
	"fmt"

	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is one process. It has one owner.
type Core struct{ member *paxos.Member }

var _ multicast.Core = (*Core)(nil)

// New makes a process. The error names the field of cfg that is wrong.
func New(cfg paxos.Config) (*Core, error) { return newCore(cfg, &rules{}) }

// NewLate makes a process whose soft clock, if it leads, follows decisions only.
func NewLate(cfg paxos.Config) (*Core, error) { return newCore(cfg, &rules{late: true}) }

func newCore(cfg paxos.Config, r *rules) (*Core, error) {
	m, err := paxos.NewMember(cfg, r)
	if err != nil {
		return nil, fmt.Errorf("fastcast: %w", err)
	}
	r.member = m
	return &Core{m}, nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay(record []byte) error {
	return fmt.Errorf("fastcast: %w", c.member.Replay(record))
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) { c.member.Step(in, out) }

// Stats gives the counts so far.
func (c *Core) Stats() paxos.Stats { return c.member.Stats() }

type rules struct {
	member *paxos.Member
	late   bool                // see NewLate
	soft   multicast.Timestamp // I5; not used if late
}

var _ paxos.Rules = (*rules)(nil)

// Start is step 2. At a follower the decisions may have been faster.
func (r *rules) Start(m *paxos.Message) {
	if !r.member.Leads() {
		if m.Assigned() {
			r.tellHard(m, m.Bound())
		}
		r.settle(m)
		return
	}
	guess := r.guess(m)
	r.member.Propose(paxos.Assign, m, m.After)
	if !m.Alone() {
		r.member.TellLeaders(paxos.Soft, m, guess)
		r.addSoft(m, r.member.Group(), guess)
	}
}

// guess gives the soft local timestamp of m, which is about to be proposed.
func (r *rules) guess(m *paxos.Message) multicast.Timestamp {
	if r.late {
		return max(r.member.Clock(), m.After) + 1
	}
	r.soft = max(r.soft, m.After) + 1
	return r.soft
}

// Hear implements paxos.Rules.
func (r *rules) Hear(g *paxos.Group, m *paxos.Message, kind paxos.Kind, ts multicast.Timestamp) {
	switch {
	case kind == paxos.Hard:
		r.addHard(m, g, ts)
	case r.member.Leads():
		r.addSoft(m, g, ts)
	}
}

// addSoft is step 3.
func (r *rules) addSoft(m *paxos.Message, g *paxos.Group, ts multicast.Timestamp) {
	m.Soft.Add(g, ts)
	if m.Started() && m.Complete(&m.Soft) && !m.Overruled {
		r.soft = max(r.soft, m.Soft.Max)
		r.member.Propose(paxos.SyncSoft, m, m.Soft.Max)
	}
}

// Decide implements paxos.Rules.
func (r *rules) Decide(m *paxos.Message, command paxos.Kind, ts multicast.Timestamp) {
	switch command {
	case paxos.SyncSoft:
		m.Synced = ts
		r.settle(m)
	case paxos.Final:
		r.member.Commit(m, ts)
	case paxos.Assign:
		if m.Started() {
			r.tellHard(m, ts)
		}
		r.addHard(m, r.member.Group(), ts)
	}
}

// tellHard is step 4.
func (r *rules) tellHard(m *paxos.Message, ts multicast.Timestamp) {
	if r.member.Leads() {
		r.member.TellAll(paxos.Hard, m, ts)
	} else {
		r.member.TellCounterparts(paxos.Hard, m, ts)
	}
}

func (r *rules) addHard(m *paxos.Message, g *paxos.Group, ts multicast.Timestamp) {
	m.Hard.Add(g, ts)
	r.settle(m)
}

// settle makes m final if its timestamp is known and the group's clock has reached it. If the guesses were
// wrong, the leader proposes the timestamp (SYNC-HARD).
func (r *rules) settle(m *paxos.Message) {
	switch {
	case !m.Started() || !m.Complete(&m.Hard) || m.IsFinal():
	case m.Alone() || m.Synced == m.Hard.Max:
		r.member.Commit(m, m.Hard.Max)
	case r.late && r.member.Leads() && !m.Overruled && (!m.Complete(&m.Soft) || m.Soft.Max != m.Hard.Max):
		m.Overruled = true
		r.member.Propose(paxos.Final, m, m.Hard.Max)
	}
}
