package check

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Validity checks that every correct destination process delivers each message that a correct process
// multicasts.
func Validity(h *History) []Violation { return newIndex(h).validity() }

// Integrity checks that a process delivers a message at most once, only after the message was multicast, and
// only if the process is a destination.
func Integrity(h *History) []Violation { return newIndex(h).integrity() }

// Agreement checks that every correct destination process delivers each message that any process, correct or
// not, delivers.
func Agreement(h *History) []Violation { return newIndex(h).agreement() }

// Timestamps checks three properties: all processes deliver a message with the same final timestamp; the
// final timestamp is higher than the requested bound; and at each process, the pair of final timestamp and id
// of a delivery is higher than those of all earlier deliveries that conflict with it.
func Timestamps(h *History) []Violation { return newIndex(h).timestamps() }

func (x *index) validity() []Violation {
	var found []Violation
	for i := range x.messages {
		m := &x.messages[i]
		sender, known := x.process[m.ID.Sender]
		if !m.sent || m.Lost || known && !x.Processes[sender].Correct {
			continue
		}
		if missing := x.missing(m); len(missing) > 0 {
			found = append(found, Violation{
				Property: "validity", Processes: missing, Messages: x.ids(i),
				Detail: fmt.Sprintf("message %v to groups %v, multicast at %v, was not delivered by its correct destinations %v",
					m.ID, m.Dest, m.At, missing),
			})
		}
	}
	return found
}

func (x *index) agreement() []Violation {
	var found []Violation
	for i := range x.messages {
		m := &x.messages[i]
		if len(m.by) == 0 {
			continue
		}
		if missing := x.missing(m); len(missing) > 0 {
			first := x.Processes[m.by[0]].ID
			found = append(found, Violation{
				Property: "agreement", Processes: append([]multicast.ProcessID{first}, missing...), Messages: x.ids(i),
				Detail: fmt.Sprintf("message %v to groups %v was delivered by process %d and not by its correct destinations %v",
					m.ID, m.Dest, first, missing),
			})
		}
	}
	return found
}

// missing returns the correct destinations of m that did not deliver it.
func (x *index) missing(m *message) []multicast.ProcessID {
	var missing []multicast.ProcessID
	for _, p := range x.destinations(m) {
		if x.Processes[p].Correct && !slices.Contains(m.by, p) {
			missing = append(missing, x.Processes[p].ID)
		}
	}
	return missing
}

func (x *index) integrity() []Violation {
	var found []Violation
	report := func(d *Delivery, format string, args ...any) {
		found = append(found, Violation{
			Property:  "integrity",
			Processes: []multicast.ProcessID{d.Process}, Messages: []multicast.MessageID{d.ID},
			Detail: fmt.Sprintf("process %d delivered message %v at %v: ", d.Process, d.ID, d.At) + fmt.Sprintf(format, args...),
		})
	}
	type once struct{ process, message int }
	seen := make(map[once]bool, len(x.Deliveries))
	for i := range x.Deliveries {
		d := &x.Deliveries[i]
		p, known := x.process[d.Process]
		if !known {
			report(d, "there is no such process")
			continue
		}
		n := x.number[d.ID]
		m := &x.messages[n]
		switch {
		case seen[once{p, n}]:
			report(d, "for the second time")
		case !m.sent:
			report(d, "nobody multicast it")
		case d.At < m.At:
			report(d, "it was multicast later, at %v", m.At)
		case !x.destination(m, p):
			report(d, "it is for groups %v, and the process is of group %d", m.Dest, x.Processes[p].Group)
		}
		seen[once{p, n}] = true
	}
	return found
}

func (x *index) timestamps() []Violation {
	var found []Violation
	type firstFinal struct {
		final multicast.Timestamp
		by    int
	}
	first := make([]*firstFinal, len(x.messages))
	report := func(p, q int, detail string, messages ...int) {
		found = append(found, Violation{
			Property: "timestamps", Processes: slices.Compact([]multicast.ProcessID{x.Processes[p].ID, x.Processes[q].ID}),
			Messages: x.ids(messages...), Detail: detail,
		})
	}
	for p, order := range x.order {
		for i, d := range order {
			m := &x.messages[d.message]
			switch f := first[d.message]; {
			case f == nil:
				first[d.message] = &firstFinal{final: d.final, by: p}
				if d.final <= m.After {
					report(p, p, fmt.Sprintf("process %d delivered message %v with final timestamp %d, which had to be above %d",
						x.Processes[p].ID, m.ID, d.final, m.After), d.message)
				}
			case f.final != d.final:
				report(f.by, p, fmt.Sprintf("message %v has the final timestamp %d at process %d and %d at process %d",
					m.ID, f.final, x.Processes[f.by].ID, d.final, x.Processes[p].ID), d.message)
			}
			if before, ok := x.notBelow(order[:i], d); ok {
				report(p, p, fmt.Sprintf("process %d delivered message %v with final timestamp %d after message %v with %d",
					x.Processes[p].ID, m.ID, d.final, x.id(before.message), before.final), before.message, d.message)
			}
		}
	}
	return found
}

// notBelow returns an earlier delivery of the same process that conflicts with d and has no lower position.
// If all messages of a class conflict, notBelow checks only the last delivery of the class.
func (x *index) notBelow(earlier []delivered, d delivered) (delivered, bool) {
	for i := len(earlier) - 1; i >= 0; i-- {
		if x.conflict(earlier[i].message, d.message) && x.position(earlier[i]).Compare(x.position(d)) >= 0 {
			return earlier[i], true
		}
		if x.Conflict == nil && x.class[earlier[i].message] == x.class[d.message] {
			break
		}
	}
	return delivered{}, false
}

func (x *index) position(d delivered) multicast.Position {
	return multicast.Position{Final: d.final, ID: x.id(d.message)}
}
