package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// PrefixOrder checks this property for all messages m and m' and all processes p and q of groups that are
// destinations of both messages: if p delivers m and has not delivered m' before, and q delivers m', then q
// has delivered m before.
//
// For two groups g and h (which may be the same), the check takes the messages to both groups, in the orders
// in which the processes of g and h delivered them. The property holds exactly if of any two of these
// sequences one is a prefix of the other: at the first place where two sequences differ, neither process has
// delivered the message of the other before. If not all messages conflict, the property is only for
// conflicting messages, and the check compares all pairs.
func PrefixOrder(h *History) []Violation { return newIndex(h).prefixOrder() }

// both has two groups, the lower one first, and a class of messages. Only messages of the same class are
// ordered.
type both struct {
	g, h  multicast.GroupID
	class int
}

// shared is the sequence of the messages to both groups that one process has delivered.
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

// sharedBy returns the deliveries of process p by pair of groups: its own group, and each group that is a
// destination of the same message.
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

// comparePrefixes compares each sequence with the longest one. If all sequences are prefixes of the longest
// one, of any two sequences one is a prefix of the other.
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

// compareConflicts checks each pair of conflicting messages: all processes that delivered at least one of
// them must have delivered the same one first.
func (x *index) compareConflicts(pair both, sequences []shared) []Violation {
	place := make([]map[int]int, len(sequences)) // by message: its place in each sequence, from 1
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

// isFirst reports whether a message was delivered, and another message was not delivered before it. The
// arguments are the places of both messages; 0: never delivered.
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
