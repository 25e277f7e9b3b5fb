package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// History is a recorded run. Times are those of one clock that all events
// share, from any origin.
type History struct {
	Processes  []Process
	Multicasts []Multicast // in any order
	Deliveries []Delivery  // of each process in its delivery order
	Steps      []Step      // empty if they were not recorded
	Sends      []Send      // empty if they were not recorded
	// Classes: only messages with the same destinations are related by their deliveries (package multicast).
	// Not together with Conflict.
	Classes bool
	// Conflict says which messages a process must order, for a protocol that orders no others (T
	// 4.4.3): only two that conflict are related by their deliveries. It is
	// symmetric and is not asked about a message and itself; nil: all conflict.
	Conflict func(a, b multicast.MessageID) bool
}

// Process is one process of the run.
type Process struct {
	ID    multicast.ProcessID
	Group multicast.GroupID
	// Correct: it did not stop for ever, and the run went on long enough for it to
	// deliver all messages that it must deliver.
	Correct bool
}

// Multicast says that a message was handed to its sender. If one id was handed
// over several times, the first counts.
type Multicast struct {
	ID   multicast.MessageID
	Dest []multicast.GroupID
	At   time.Duration
	// After is the lower bound that was asked for (T 4.4.2).
	After multicast.Timestamp
	Order multicast.Order
	// Lost: the sender stopped, even if it came back, before anybody delivered the
	// message. It need not be delivered any more.
	Lost bool
}

// Delivery says that a process delivered a message.
type Delivery struct {
	Process multicast.ProcessID
	ID      multicast.MessageID
	Final   multicast.Timestamp
	At      time.Duration
}

// Step says that a process sent or received a message of the protocol. The first of each
// process is enough.
type Step struct {
	Process multicast.ProcessID
	At      time.Duration
}

// Send says that a process sent something to another one. The first of each pair is enough.
type Send struct {
	From, To multicast.ProcessID
	At       time.Duration
}

// Violation is one way in which a run broke a property.
type Violation struct {
	Property  string // the name of the check
	Processes []multicast.ProcessID
	Messages  []multicast.MessageID
	Detail    string // names them, too
}

// String gives the property and the detail.
func (v Violation) String() string { return v.Property + ": " + v.Detail }

// Describe lists violations, one a line, up to a number that can be read.
func Describe(violations []Violation) string {
	const most = 20
	var b strings.Builder
	for i, v := range violations {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(violations)-most)
			break
		}
		fmt.Fprintln(&b, v)
	}
	return b.String()
}

// All returns the violations of everything that package multicast promises. The
// run must have ended: a message that is not delivered is taken as never delivered.
func All(h *History) []Violation {
	x := newIndex(h)
	return slices.Concat(x.integrity(), x.prefixOrder(), x.acyclicOrder(), x.timestamps(), x.validity(), x.agreement())
}

// index is a History with dense numbers: messages and processes are positions in the
// slices, sequences hold message numbers.
type index struct {
	*History
	messages []message
	number   map[multicast.MessageID]int
	process  map[multicast.ProcessID]int
	members  map[multicast.GroupID][]int
	order    [][]delivered // by process
	class    []int         // of each message; with Classes, messages with the same destinations have the same
}

// message is a Multicast; if it was only delivered, sent is false and all but the id zero.
type message struct {
	Multicast
	sent bool
	by   []int // processes that delivered it, once each
}

// delivered is a place in the sequence of a process, which has each message once.
type delivered struct {
	message int
	final   multicast.Timestamp
	at      time.Duration
}

func newIndex(h *History) *index {
	x := &index{
		History: h,
		number:  make(map[multicast.MessageID]int, len(h.Multicasts)),
		process: make(map[multicast.ProcessID]int, len(h.Processes)),
		members: map[multicast.GroupID][]int{},
		order:   make([][]delivered, len(h.Processes)),
	}
	for i, p := range h.Processes {
		x.process[p.ID] = i
		x.members[p.Group] = append(x.members[p.Group], i)
	}
	for _, m := range h.Multicasts {
		known := &x.messages[x.intern(m.ID)]
		if !known.sent || m.At < known.At {
			known.Multicast, known.sent = m, true
		}
	}
	for _, d := range h.Deliveries {
		p, ok := x.process[d.Process]
		if !ok {
			continue // integrity reports it
		}
		n := x.intern(d.ID)
		if slices.Contains(x.messages[n].by, p) {
			continue // integrity reports it, and the other checks look at the first time
		}
		x.messages[n].by = append(x.messages[n].by, p)
		x.order[p] = append(x.order[p], delivered{message: n, final: d.Final, at: d.At})
	}
	x.classify()
	return x
}

// classify numbers the classes.
func (x *index) classify() {
	x.class = make([]int, len(x.messages))
	numbers := map[multicast.Class]int{}
	for i := range x.messages {
		if !x.Classes {
			break
		}
		name := multicast.ClassOf(x.messages[i].Dest)
		if _, ok := numbers[name]; !ok {
			numbers[name] = len(numbers)
		}
		x.class[i] = numbers[name]
	}
}

// intern returns the number of a message.
func (x *index) intern(id multicast.MessageID) int {
	n, ok := x.number[id]
	if !ok {
		n = len(x.messages)
		x.number[id] = n
		x.messages = append(x.messages, message{Multicast: Multicast{ID: id}})
	}
	return n
}

// conflict reports whether two messages, not the same one, have to be ordered.
func (x *index) conflict(a, b int) bool {
	return x.class[a] == x.class[b] && (x.Conflict == nil || x.Conflict(x.id(a), x.id(b)))
}

func (x *index) id(message int) multicast.MessageID { return x.messages[message].ID }

func (x *index) ids(messages ...int) []multicast.MessageID {
	ids := make([]multicast.MessageID, len(messages))
	for i, m := range messages {
		ids[i] = x.id(m)
	}
	return ids
}

// destination reports whether m is for process p.
func (x *index) destination(m *message, p int) bool {
	return slices.Contains(m.Dest, x.Processes[p].Group)
}

// destinations returns the processes that m is for, in the order of its groups.
func (x *index) destinations(m *message) []int {
	var all []int
	for _, g := range m.Dest {
		all = append(all, x.members[g]...)
	}
	return all
}

// sortedByTime returns the numbers 0..n-1 in the order of their times, ties as they are.
func sortedByTime(n int, at func(int) time.Duration) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
	return order
}
