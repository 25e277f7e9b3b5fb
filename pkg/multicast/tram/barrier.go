package tram

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// # Barriers
//
// A barrier is the last message of this order: it goes to all groups, and no group orders anything behind it.
// The next order begins there, with another tree, or with another protocol: the payload of the barrier
// names it.
//
//	B1  A group that has a barrier in its log orders nothing more (take), and no new leader does (follows).
//	B2  The barrier reaches each group through its parent, behind all that the parent has ordered. So a
//	    message of an lca that is ordered before the barrier there is before it in all groups on the way,
//	    and all its destinations deliver it before the barrier: the barrier drains the tree. A message that
//	    is not ordered before it at the lca is ordered nowhere.
//	B3  All members of a group that have applied the barrier report the same number of ordered messages of
//	    a client (note.taken with note.sealed). The client gets back the rest (Output.Returned). This order
//	    never delivers any of these messages, so they may be multicast in the next one.
//
// Hence any order of the next messages behind the barrier keeps prefix and acyclic order.

// Barrier as the Order of a message makes it the last message of this order.
const Barrier multicast.Order = 0x80

// barrierFlag marks a barrier in the number of destinations.
const barrierFlag = 1 << 15

// NewBarrier returns a barrier with a payload, which the caller then proposes.
func (c *site) NewBarrier(seq uint64, payload []byte) multicast.Message {
	return multicast.Message{ID: multicast.MessageID{Sender: c.cfg.Self, Seq: seq}, Dest: c.allGroups(), Order: Barrier, Payload: payload}
}

// allGroups returns all groups, sorted.
func (c *site) allGroups() (all []multicast.GroupID) {
	for _, g := range c.cfg.Groups {
		all = append(all, g.ID)
	}
	slices.Sort(all)
	return all
}

// orderable reports whether the Order of m is supported. A barrier must go to all groups.
func (c *site) orderable(m *multicast.Message) bool {
	return m.Order == multicast.Acyclic || m.Order == Barrier && slices.Equal(m.Dest, c.allGroups())
}

// giveBack outputs the messages that a group has not ordered before its barrier.
func (c *site) giveBack(f *flow) {
	f.sealed = true
	for i, slot := range f.entries {
		content, _, _ := unseal(slot, f.taken+uint64(i)+1)
		if m, ok := decodeMessage(content); ok {
			c.out.Returned = append(c.out.Returned, m)
		}
	}
	f.entries = nil
}
