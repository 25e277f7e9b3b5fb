package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// AcyclicOrder checks that the union of the delivery orders of all processes has no cycle. For a protocol
// that orders only conflicting messages, a delivery order has only the pairs of conflicting messages.
func AcyclicOrder(h *History) []Violation { return newIndex(h).acyclicOrder() }

// AtomicGlobalOrder checks the atomic global order of package multicast (thesis section 5.2.2). It considers
// the messages that demand this order, and those that go to one group only. Between these messages there are
// two relations: the delivery orders, and "m' was multicast strictly later than m was delivered at some
// destination". The union of the relations has no cycle.
func AtomicGlobalOrder(h *History) []Violation { return newIndex(h).atomicGlobalOrder() }

func (x *index) acyclicOrder() []Violation {
	g := make(graph, len(x.messages))
	x.addOrders(g, func(int) bool { return true })
	cycle := g.cycle()
	if cycle == nil {
		return nil
	}
	return []Violation{x.explain("acyclic order", cycle, nil)}
}

// addOrders adds the delivery order of each process among the messages that count, as edges with the process
// as label: from each message to the next message of its class, or between any two conflicting messages.
func (x *index) addOrders(g graph, counts func(message int) bool) {
	var before []int
	for p, order := range x.order {
		before = before[:0]
		last := map[int]int{} // the last message of each class
		for _, d := range order {
			if !counts(d.message) {
				continue
			}
			if o, ok := last[x.class[d.message]]; ok && x.Conflict == nil {
				g.add(o, d.message, p)
			} else if x.Conflict != nil {
				x.addConflicts(g, before, d.message, p)
				before = append(before, d.message)
			}
			last[x.class[d.message]] = d.message
		}
	}
}

func (x *index) addConflicts(g graph, before []int, m, process int) {
	for _, o := range before {
		if x.conflict(o, m) {
			g.add(o, m, process)
		}
	}
}

// moment is the first delivery of a message.
type moment struct {
	message int
	process int
	at      time.Duration
}

// realTime labels the edges of real time.
const realTime = -1

// isGlobal reports whether atomic global order applies to a message.
func (x *index) isGlobal(m int) bool {
	return x.messages[m].Order == multicast.AtomicGlobal || len(x.messages[m].Dest) == 1
}

// atomicGlobalOrder adds a chain of nodes (moments) to the graph, one for the first delivery of each message,
// in the order of time. It adds edges from each message to its moment, from each moment to the next one, and
// from the last moment before a multicast to the message of this multicast.
func (x *index) atomicGlobalOrder() []Violation {
	moments := slices.DeleteFunc(x.firstDeliveries(), func(m moment) bool { return !x.isGlobal(m.message) })
	n := len(x.messages)
	g := make(graph, n+len(moments))
	for i, m := range moments {
		g.add(m.message, n+i, realTime)
		if i > 0 {
			g.add(n+i-1, n+i, realTime)
		}
	}
	last := -1
	for _, m := range sortedByTime(n, func(i int) time.Duration { return x.messages[i].At }) {
		for last+1 < len(moments) && moments[last+1].at < x.messages[m].At {
			last++
		}
		if last >= 0 && x.messages[m].sent && x.isGlobal(m) {
			g.add(n+last, m, realTime)
		}
	}
	x.addOrders(g, x.isGlobal)
	cycle := g.cycle()
	if cycle == nil {
		return nil
	}
	return []Violation{x.explain("atomic global order", cycle, moments)}
}

// firstDeliveries returns when and where each message was first delivered, in the order of time.
func (x *index) firstDeliveries() []moment {
	var moments []moment
	first := make([]int, len(x.messages)) // position in moments, plus one
	for p, order := range x.order {
		for _, d := range order {
			if f := first[d.message]; f == 0 {
				moments = append(moments, moment{message: d.message, process: p, at: d.at})
				first[d.message] = len(moments)
			} else if d.at < moments[f-1].at {
				moments[f-1].process, moments[f-1].at = p, d.at
			}
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return moments
}

// explain describes a cycle as a violation. The description starts with a message, and leaves out the
// moments.
func (x *index) explain(property string, cycle []arc, moments []moment) Violation {
	n := len(x.messages)
	for cycle[0].from >= n { // a cycle has at least one message, because the chain has no cycle
		cycle = append(cycle[1:], cycle[0])
	}
	v := Violation{Property: property, Messages: x.ids(cycle[0].from)}
	parts := []string{x.id(cycle[0].from).String()}
	for i, a := range cycle {
		switch {
		case a.to >= n:
			continue // an edge to a moment
		case a.label == realTime:
			// The edge begins at a moment: find the message before the chain of moments.
			j := i
			for cycle[j].from >= n {
				j--
			}
			parts = append(parts, x.explainRealTime(cycle[j].from, a.to, moments))
		default:
			p := x.Processes[a.label].ID
			v.Processes = append(v.Processes, p)
			parts = append(parts, fmt.Sprintf("before %v at process %d", x.id(a.to), p))
		}
		v.Messages = append(v.Messages, x.id(a.to))
	}
	v.Messages = v.Messages[:len(v.Messages)-1] // the last message is the first one again
	slices.SortFunc(v.Messages, multicast.MessageID.Compare)
	slices.Sort(v.Processes)
	v.Processes = slices.Compact(v.Processes)
	v.Detail = "cycle: " + strings.Join(parts, ", ")
	return v
}

// explainRealTime describes why m is before the message next in real time.
func (x *index) explainRealTime(m, next int, moments []moment) string {
	i := slices.IndexFunc(moments, func(t moment) bool { return t.message == m })
	return fmt.Sprintf("delivered at process %d at %v and so before %v, which was multicast at %v",
		x.Processes[moments[i].process].ID, moments[i].at, x.id(next), x.messages[next].At)
}
