package paxos

import "github.com/globalfs/globalfs/pkg/multicast"

// Message is a message that some destination may not have delivered, as a member knows it. Its fields are
// the zero value until START has come, which other news of it may overtake.
type Message struct {
	multicast.Message
	Soft, Hard Votes               // local timestamps, of the rules
	Synced     multicast.Timestamp // the optimistic final timestamp, of the rules
	Overruled  bool                // the final timestamp was proposed in place of the optimistic one, of the rules

	sender    *peer
	route     *route              // nil until START has come
	bound     multicast.Timestamp // local timestamp, then the final one; 0: none
	final     bool
	delivered bool
	slot      int // in the queue
}

// Started reports whether START has come.
func (m *Message) Started() bool { return m.route != nil }

// Assigned reports whether the own group has decided a local timestamp.
func (m *Message) Assigned() bool { return m.bound != 0 }

// Bound returns the local timestamp, and the final one once that is known; 0: none.
func (m *Message) Bound() multicast.Timestamp { return m.bound }

// IsFinal reports whether the final timestamp is known.
func (m *Message) IsFinal() bool { return m.final }

// Alone reports whether m, which has started, goes to one group only.
func (m *Message) Alone() bool { return len(m.route.groups) == 1 }

// Complete reports whether all destination groups of m, which has started, are in v.
func (m *Message) Complete(v *Votes) bool { return v.from == m.route.bits }

func (m *Message) position() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// Before implements heap.Item.
func (m *Message) Before(other *Message) bool { return m.position().Compare(other.position()) < 0 }

// Moved implements heap.Item.
func (m *Message) Moved(to int) { m.slot = to }

// deliveredByAll reports whether all destination groups have delivered m, which is delivered here.
func (m *Message) deliveredByAll() bool {
	at := m.position()
	for _, g := range m.route.groups {
		if g.delivered.Compare(at) < 0 {
			return false
		}
	}
	return true
}

// Votes are the local timestamps of some groups.
type Votes struct {
	Max  multicast.Timestamp
	from uint64
}

// Add adds the one of a group.
func (v *Votes) Add(g *Group, ts multicast.Timestamp) {
	v.from |= g.bit
	v.Max = max(v.Max, ts)
}
