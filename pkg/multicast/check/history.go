package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// History is a recorded run. All times are of the same clock, whose origin does not matter.
type History struct {
	Processes  []Process
	Multicasts []Multicast // in any order
	Deliveries []Delivery  // the deliveries of each process are in its delivery order
	Steps      []Step      // empty if they were not recorded
	Sends      []Send      // empty if they were not recorded
	// Classes means that the protocol orders only messages with the same destinations (package multicast). It
	// excludes Conflict.
	Classes bool
	// Conflict is for a protocol that orders only conflicting messages (T 4.4.3). It reports whether two
	// different messages conflict, and is symmetric. nil: all messages conflict.
	Conflict func(a, b multicast.MessageID) bool
}

// Process is one process of the run.
type Process struct {
	ID    multicast.ProcessID
	Group multicast.GroupID
	// Correct means that the process did not stop for ever, and that the run was long enough for the process
	// to deliver all messages that it must deliver.
	Correct bool
}

// Multicast is the event that a message was proposed to its sender. If a message was proposed several times,
// the first time counts.
type Multicast struct {
	ID   multicast.MessageID
	Dest []multicast.GroupID
	At   time.Duration
	// After is the requested lower bound of the final timestamp (T 4.4.2).
	After multicast.Timestamp
	Order multicast.Order
	// Lost means that the sender stopped, perhaps for a short time, before any process delivered the message.
	// Then no process needs to deliver it.
	Lost bool
}

// Delivery is the event that a process delivered a message.
type Delivery struct {
	Process multicast.ProcessID
	ID      multicast.MessageID
	Final   multicast.Timestamp
	At      time.Duration
}

// Step is the event that a process sent or received a message of the protocol. The first step of each process
// is enough.
type Step struct {
	Process multicast.ProcessID
	At      time.Duration
}

// Send is the event that a process sent a frame to another process. The first one of each pair of processes
// is enough.
type Send struct {
	From, To multicast.ProcessID
	At       time.Duration
}

// Violation is one way in which a run broke a property.
type Violation struct {
	Property  string // the name of the check
	Processes []multicast.ProcessID
	Messages  []multicast.MessageID
	Detail    string // a description that also names the processes and messages
}

// String returns the property and the detail.
func (v Violation) String() string { return v.Property + ": " + v.Detail }

// Describe returns a text with one line for each violation, at most 20 of them.
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

// All returns the violations of all promises of package multicast. The run must have ended: a message without
// a delivery in the History counts as never delivered.
func All(h *History) []Violation {
	x := newIndex(h)
	return slices.Concat(x.integrity(), x.prefixOrder(), x.acyclicOrder(), x.timestamps(), x.validity(), x.agreement())
}

// index is a History in which messages and processes have numbers: their positions in the slices. Sequences
// contain numbers of messages.
type index struct {
	*History
	messages []message
	number   map[multicast.MessageID]int
	process  map[multicast.ProcessID]int
	members  map[multicast.GroupID][]int
	order    [][]delivered // the deliveries of each process
	class    []int         // the class of each message; with Classes, the same for messages with the same destinations
}

// message is a Multicast. If the message was delivered and not multicast, sent is false, and all fields
// except the id are zero.
type message struct {
	Multicast
	sent bool
	by   []int // the processes that delivered the message, each once
}

// delivered is an element of the sequence of deliveries of a process. The sequence has each message once.
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
			continue // integrity reports it, and the other checks use the first delivery
		}
		x.messages[n].by = append(x.messages[n].by, p)
		x.order[p] = append(x.order[p], delivered{message: n, final: d.Final, at: d.At})
	}
	x.classify()
	return x
}

// classify assigns numbers to the classes.
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

// conflict reports whether two different messages must be ordered.
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

// destination reports whether process p is a destination of m.
func (x *index) destination(m *message, p int) bool {
	return slices.Contains(m.Dest, x.Processes[p].Group)
}

// destinations returns the destination processes of m, in the order of its groups.
func (x *index) destinations(m *message) []int {
	var all []int
	for _, g := range m.Dest {
		all = append(all, x.members[g]...)
	}
	return all
}

// sortedByTime returns the numbers 0..n-1 in the order of their times. The sort is stable.
func sortedByTime(n int, at func(int) time.Duration) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
	return order
}
