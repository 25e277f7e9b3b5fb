package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// PrefixOrder: of two messages with common destination groups, no two processes of these groups deliver
// each one without the other before it.
//
// For two groups g and h (the same one included) only the messages to both matter, in the
// orders in which the processes of g and h delivered them. The property says exactly that
// of any two of these sequences one is a prefix of the other: at the first place where they
// differ, neither process can have delivered the other's message before. If not all messages
// conflict, it is said of any two that do, and checked pair by pair.
func PrefixOrder(h *History) []Violation { return newIndex(h).prefixOrder() }

// both are two groups, the lower one first, and a class of messages: those of one class only are ordered.
type both struct {
	g, h  multicast.GroupID
	class int
}

// shared is a sequence of the messages to both groups, delivered by one process.
type shared struct {
	process  int
	messages []int
}

func (x *index) prefixOrder() []Violation {
	sequences := map[both][]shared{}
	var pairs []both
	for p := range x.order {
		for pair, messages := range x.sharedBy(p) {
			if sequences[pair] == nil {
				pairs = append(pairs, pair)
			}
			sequences[pair] = append(sequences[pair], shared{p, messages})
		}
	}
	slices.SortFunc(pairs, func(a, b both) int {
		return cmp.Or(cmp.Compare(a.g, b.g), cmp.Compare(a.h, b.h), cmp.Compare(a.class, b.class))
	})
	var found []Violation
	for _, pair := range pairs {
		if x.Conflict == nil {
			found = append(found, x.comparePrefixes(pair, sequences[pair])...)
		} else {
			found = append(found, x.compareConflicts(pair, sequences[pair])...)
		}
	}
	return found
}

// sharedBy returns the deliveries of process p, for each group that it shares messages with.
func (x *index) sharedBy(p int) map[both][]int {
	own := x.Processes[p].Group
	out := map[both][]int{}
	for _, d := range x.order[p] {
		m := &x.messages[d.message]
		if !x.destination(m, p) {
			continue // integrity reports it
		}
		for _, g := range m.Dest {
			pair := both{min(own, g), max(own, g), x.class[d.message]}
			out[pair] = append(out[pair], d.message)
		}
	}
	return out
}

// comparePrefixes compares each sequence with the longest one: if all are its prefixes, they are prefixes of
// each other.
func (x *index) comparePrefixes(pair both, sequences []shared) []Violation {
	longest := slices.MaxFunc(sequences, func(a, b shared) int {
		return cmp.Or(cmp.Compare(len(a.messages), len(b.messages)), cmp.Compare(b.process, a.process))
	})
	var found []Violation
	for _, s := range sequences {
		for i, m := range s.messages {
			other := longest.messages[i]
			if m == other {
				continue
			}
			found = append(found, x.explainPrefix(pair, s.process, m, longest.process, other))
			break
		}
	}
	return found
}

// compareConflicts looks at each two messages that conflict: all processes that delivered any of them
// delivered the same one first.
func (x *index) compareConflicts(pair both, sequences []shared) []Violation {
	place := make([]map[int]int, len(sequences)) // of each message, from 1
	all := map[int]bool{}
	for i, s := range sequences {
		place[i] = make(map[int]int, len(s.messages))
		for at, m := range s.messages {
			place[i][m] = at + 1
			all[m] = true
		}
	}
	messages := slices.Sorted(maps.Keys(all))
	var found []Violation
	for i, m := range messages {
		for _, o := range messages[i+1:] {
			if !x.conflict(m, o) {
				continue
			}
			p := slices.IndexFunc(place, func(at map[int]int) bool { return isFirst(at[m], at[o]) })
			q := slices.IndexFunc(place, func(at map[int]int) bool { return isFirst(at[o], at[m]) })
			if p >= 0 && q >= 0 {
				found = append(found, x.explainPrefix(pair, sequences[p].process, m, sequences[q].process, o))
			}
		}
	}
	return found
}

// isFirst reports whether a message at a place was delivered without one at another place before it; 0: never
// delivered.
func isFirst(place, other int) bool { return place > 0 && (other == 0 || place < other) }

func (x *index) explainPrefix(pair both, process, m, otherProcess, other int) Violation {
	p, q := x.Processes[process].ID, x.Processes[otherProcess].ID
	return Violation{
		Property: "prefix order", Processes: []multicast.ProcessID{p, q}, Messages: x.ids(m, other),
		Detail: fmt.Sprintf("messages %v and %v are both for groups %d and %d; process %d delivered %v without %v before it, "+
			"process %d delivered %v without %v before it",
			x.id(m), x.id(other), pair.g, pair.h, p, x.id(m), x.id(other), q, x.id(other), x.id(m)),
	}
}
