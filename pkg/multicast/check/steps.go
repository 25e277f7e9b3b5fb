package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Genuineness checks two properties. First, a process takes no step before a message was multicast of which
// it is the sender or a destination. This is the definition of thesis 2.2.1, applied to the run up to each
// step, because each prefix of a run is a run. Second, a process sends nothing to another process before a
// message was multicast that concerns both: a process that takes part in one message does not contact the
// processes of other messages.
func Genuineness(h *History) []Violation {
	x := newIndex(h)
	return slices.Concat(x.silence(), x.privacy())
}

// silence checks the steps of processes.
func (x *index) silence() []Violation {
	const never = time.Duration(math.MaxInt64)
	concerned := make([]time.Duration, len(x.Processes))
	for p := range concerned {
		concerned[p] = never
	}
	for i := range x.messages {
		m := &x.messages[i]
		if !m.sent {
			continue
		}
		for _, p := range x.destinations(m) {
			concerned[p] = min(concerned[p], m.At)
		}
		if p, ok := x.process[m.ID.Sender]; ok {
			concerned[p] = min(concerned[p], m.At)
		}
	}
	var found []Violation
	reported := make([]bool, len(x.Processes))
	for _, s := range x.Steps {
		p, known := x.process[s.Process]
		if !known || reported[p] || s.At >= concerned[p] {
			continue
		}
		reported[p] = true
		why := "no message concerns it"
		if concerned[p] != never {
			why = fmt.Sprintf("the first message that concerns it was multicast at %v", concerned[p])
		}
		found = append(found, Violation{
			Property: "genuineness", Processes: []multicast.ProcessID{s.Process},
			Detail: fmt.Sprintf("process %d of group %d took a step at %v: %s", s.Process, x.Processes[p].Group, s.At, why),
		})
	}
	return found
}

// privacy checks the sends between processes.
func (x *index) privacy() []Violation {
	type pair struct{ from, to int }
	concerned := map[pair]time.Duration{} // the time of the first message that concerns both processes
	for i := range x.messages {
		m := &x.messages[i]
		if !m.sent || len(x.Sends) == 0 {
			continue
		}
		parties := x.destinations(m)
		if p, ok := x.process[m.ID.Sender]; ok {
			parties = append(parties, p)
		}
		for _, p := range parties {
			for _, q := range parties {
				if at, ok := concerned[pair{p, q}]; !ok || m.At < at {
					concerned[pair{p, q}] = m.At
				}
			}
		}
	}
	var found []Violation
	for _, s := range x.Sends {
		from, known := x.process[s.From]
		to, knows := x.process[s.To]
		if at, ok := concerned[pair{from, to}]; known && knows && (!ok || s.At < at) {
			found = append(found, Violation{
				Property: "genuineness", Processes: []multicast.ProcessID{s.From, s.To},
				Detail: fmt.Sprintf("process %d of group %d sent to process %d of group %d at %v: no message before concerns both",
					s.From, x.Processes[from].Group, s.To, x.Processes[to].Group, s.At),
			})
		}
	}
	return found
}

// Bounds has the maximum numbers of communication steps of a delivery, for a run in which all steps take the
// same time, computation takes no time, and nothing fails.
type Bounds struct {
	Step          time.Duration // the time of one step
	CollisionFree int           // steps without conflicting concurrent messages
	FailureFree   int           // steps with conflicting concurrent messages
}

// Latency checks that every destination delivers a message within the bounds (T 4.1.2). Two messages conflict
// if they have a common destination group. They are concurrent if each was multicast before the last delivery
// of the other. The thesis has the first delivery in this definition. But a message that one destination has
// delivered can still wait at another destination, and delays the messages behind it there. Also, the latency
// of a message is that of its last delivery.
func Latency(h *History, b Bounds) []Violation {
	x := newIndex(h)
	collides := x.collisions()
	var found []Violation
	for p, order := range x.order {
		for _, d := range order {
			m := &x.messages[d.message]
			most, kind := b.CollisionFree, "collision-free"
			if collides[d.message] {
				most, kind = b.FailureFree, "failure-free"
			}
			if took := d.at - m.At; m.sent && took > time.Duration(most)*b.Step {
				found = append(found, Violation{
					Property: "latency", Processes: []multicast.ProcessID{x.Processes[p].ID}, Messages: x.ids(d.message),
					Detail: fmt.Sprintf("process %d delivered message %v %.2f steps after it was multicast at %v: %s latency is at most %d",
						x.Processes[p].ID, m.ID, float64(took)/float64(b.Step), m.At, kind, most),
				})
			}
		}
	}
	return found
}

// collisions reports for each message whether a conflicting message was concurrent. It compares each message
// only with the messages that are under way at the same time, which are few.
func (x *index) collisions() []bool {
	last := make([]time.Duration, len(x.messages))
	for i := range x.messages {
		if len(x.messages[i].by) < len(x.destinations(&x.messages[i])) {
			last[i] = math.MaxInt64
		}
	}
	for _, order := range x.order {
		for _, d := range order {
			last[d.message] = max(last[d.message], d.at)
		}
	}
	collides := make([]bool, len(x.messages))
	var underWay []int
	for _, m := range sortedByTime(len(x.messages), func(i int) time.Duration { return x.messages[i].At }) {
		underWay = slices.DeleteFunc(underWay, func(o int) bool { return last[o] <= x.messages[m].At })
		for _, o := range underWay {
			if shareDest(&x.messages[m], &x.messages[o]) {
				collides[m], collides[o] = true, true
			}
		}
		underWay = append(underWay, m)
	}
	return collides
}

// shareDest reports whether two messages have a destination group in common.
func shareDest(a, b *message) bool {
	return slices.ContainsFunc(a.Dest, func(g multicast.GroupID) bool { return slices.Contains(b.Dest, g) })
}
