// Package classic is the classic way to make Skeen's multicast fault-tolerant (Fritzke, Ingels, Mostefaoui
// and Raynal, SRDS 1998; thesis section 4.1): each process of it becomes a group that runs consensus (package
// paxos). It is for benchmarks only.
//
//  1. The sender sends START(m) to every process of every destination group.
//  2. and 3. A leader proposes m to its group. The group's log gives m the local timestamp: the clock, plus
//     one.
//  4. The leader sends it to the leaders of the other destination groups (HARD).
//  5. and 6. A leader with the local timestamps of all proposes the highest as the final one; the group's
//     clock goes up to it.
//
// Messages are delivered in the order of (final timestamp, id), six communication steps after the multicast.
// The thesis gives twelve if others are in the way, as the clock moves only at the end. It is ten, because
// the log orders the proposals: only a message that reaches a leader before the leader proposes the final
// timestamp of m, four steps after m was multicast, can be ordered before m. Such a message takes six steps.
// A message to one group needs the first consensus only: three.
//
// Timestamps go from leader to leader and not from all to all, since leaders are fixed.
package classic

import (
	"fmt"

	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is one process. It has one owner.
type Core struct{ member *paxos.Member }

var _ multicast.Core = (*Core)(nil)

// New makes a process. The error names the field of cfg that is wrong.
func New(cfg paxos.Config) (*Core, error) {
	r := &rules{}
	m, err := paxos.NewMember(cfg, r)
	if err != nil {
		return nil, fmt.Errorf("classic: %w", err)
	}
	r.member = m
	return &Core{m}, nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay(record []byte) error {
	return fmt.Errorf("classic: %w", c.member.Replay(record))
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) { c.member.Step(in, out) }

// Stats gives the counts so far.
func (c *Core) Stats() paxos.Stats { return c.member.Stats() }

type rules struct{ member *paxos.Member }

var _ paxos.Rules = (*rules)(nil)

// Start is step 2. At a follower the decision may have been faster.
func (r *rules) Start(m *paxos.Message) {
	if r.member.Leads() {
		r.member.Propose(paxos.Assign, m, m.After)
	} else if m.Assigned() && m.Alone() {
		r.member.Commit(m, m.Hard.Max)
	}
}

// Decide is the end of steps 3 and 6.
func (r *rules) Decide(m *paxos.Message, command paxos.Kind, ts multicast.Timestamp) {
	switch {
	case command == paxos.Final:
		r.member.Commit(m, ts)
	case command == paxos.Assign:
		r.assigned(m, ts)
	}
}

func (r *rules) assigned(m *paxos.Message, ts multicast.Timestamp) {
	m.Hard.Add(r.member.Group(), ts)
	switch {
	case !m.Started():
	case m.Alone():
		r.member.Commit(m, ts)
	case r.member.Leads():
		r.member.TellLeaders(paxos.Hard, m, ts)
		r.finish(m)
	}
}

// Hear is the end of step 4.
func (r *rules) Hear(g *paxos.Group, m *paxos.Message, kind paxos.Kind, ts multicast.Timestamp) {
	if r.member.Leads() && kind == paxos.Hard {
		m.Hard.Add(g, ts)
		r.finish(m)
	}
}

// finish is step 5, once.
func (r *rules) finish(m *paxos.Message) {
	if m.Started() && m.Complete(&m.Hard) {
		r.member.Propose(paxos.Final, m, m.Hard.Max)
	}
}
