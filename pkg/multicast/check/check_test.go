package check

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// script builds a history from calls. The time advances by a second with every event.
type script struct {
	History
	now time.Duration
}

// newScript has the processes 1, 2, 3 in group 1, 4, 5, 6 in group 2 and 7, 8, 9 in group 3.
func newScript() *script {
	s := &script{}
	for p := range multicast.ProcessID(9) {
		s.Processes = append(s.Processes, Process{ID: p + 1, Group: multicast.GroupID(p/3 + 1), Correct: true})
	}
	return s
}

// id is message n of the sender whose number is its thousands.
func id(n uint64) multicast.MessageID {
	return multicast.MessageID{Sender: multicast.ProcessID(n / 1000), Seq: n % 1000}
}

func (s *script) multicast(n uint64, dest ...multicast.GroupID) *script {
	s.now += time.Second
	s.Multicasts = append(s.Multicasts, Multicast{ID: id(n), Dest: dest, At: s.now, Order: multicast.AtomicGlobal})
	return s
}

// acyclic: the last message does not ask for atomic global order.
func (s *script) acyclic() *script {
	s.Multicasts[len(s.Multicasts)-1].Order = multicast.Acyclic
	return s
}

// classes: only messages with the same destinations are ordered.
func (s *script) classes() *script {
	s.Classes = true
	return s
}

// conflicts are the only ones, between messages that are named in pairs.
func (s *script) conflicts(pairs ...uint64) *script {
	s.Conflict = func(a, b multicast.MessageID) bool {
		for i := 0; i < len(pairs); i += 2 {
			if x, y := id(pairs[i]), id(pairs[i+1]); a == x && b == y || a == y && b == x {
				return true
			}
		}
		return false
	}
	return s
}

func (s *script) deliver(n uint64, final multicast.Timestamp, processes ...multicast.ProcessID) *script {
	s.now += time.Second
	for _, p := range processes {
		s.Deliveries = append(s.Deliveries, Delivery{Process: p, ID: id(n), Final: final, At: s.now})
	}
	return s
}

func (s *script) faulty(p multicast.ProcessID) *script {
	s.Processes[p-1].Correct = false
	return s
}

func (s *script) step(p multicast.ProcessID) *script {
	s.Steps = append(s.Steps, Step{Process: p, At: s.now})
	return s
}

func (s *script) send(from, to multicast.ProcessID) *script {
	s.Sends = append(s.Sends, Send{From: from, To: to, At: s.now})
	return s
}

func (s *script) lost() *script {
	s.Multicasts[len(s.Multicasts)-1].Lost = true
	return s
}

func (s *script) after(ts multicast.Timestamp) *script {
	s.Multicasts[len(s.Multicasts)-1].After = ts
	return s
}

// checks are all that need no fixed delays, by name.
var checks = map[string]func(*History) []Violation{
	"validity": Validity, "integrity": Integrity, "agreement": Agreement, "prefix order": PrefixOrder,
	"acyclic order": AcyclicOrder, "atomic global order": AtomicGlobalOrder, "timestamps": Timestamps,
	"genuineness": Genuineness,
}

func TestEachBrokenPropertyIsFoundByItsCheckOnly(t *testing.T) {
	everywhere := []multicast.ProcessID{1, 2, 3, 4, 5, 6}
	for name, c := range map[string]struct {
		history *script
		broken  []string // checks that find something
		detail  string
	}{
		"nothing happens": {history: newScript()},
		"all is well": {
			history: newScript().
				multicast(1001, 1, 2).multicast(4001, 1, 2).multicast(9001, 1).
				deliver(1001, 3, 1, 2, 3).deliver(4001, 4, 1, 2, 3).deliver(1001, 3, 4, 5, 6).
				deliver(9001, 5, 1, 2, 3).deliver(4001, 4, 4, 5, 6).
				step(1).step(4).step(9),
		},
		"those that a message concerns talk to each other": {
			history: newScript().multicast(9001, 1, 2).send(9, 1).send(1, 6).send(2, 3).send(4, 9).
				deliver(9001, 1, 1, 2, 3, 4, 5, 6),
		},
		"a process turns to one that no message of its own concerns": {
			history: newScript().multicast(1001, 1).multicast(4001, 2).send(1, 3).send(1, 4).
				deliver(1001, 1, 1, 2, 3).deliver(4001, 1, 4, 5, 6),
			broken: []string{"genuineness"},
			detail: "process 1 of group 1 sent to process 4 of group 2 at 2s: no message before concerns both",
		},
		"a process turns to another too early": {
			history: newScript().multicast(1001, 1).send(1, 4).multicast(4001, 1, 2).
				deliver(1001, 1, 1, 2, 3).deliver(4001, 2, 1, 2, 3, 4, 5, 6),
			broken: []string{"genuineness"},
		},
		"classes are independent": {
			history: newScript().classes().
				multicast(1001, 1, 2).acyclic().multicast(4001, 1, 2, 3).acyclic().multicast(9001, 1, 2).acyclic().
				deliver(4001, 4, 1, 2, 3, 7, 8, 9).deliver(1001, 3, 1, 2, 3, 4, 5, 6).deliver(9001, 5, 1, 2, 3, 4, 5, 6).deliver(4001, 4, 4, 5, 6),
		},
		"a class has two orders": {
			history: newScript().classes().multicast(1001, 1, 2).acyclic().multicast(4001, 1, 2).acyclic().
				deliver(1001, 3, 1, 2, 3).deliver(4001, 4, 1, 2, 3, 4, 5, 6).deliver(1001, 3, 4, 5, 6),
			broken: []string{"prefix order", "acyclic order", "timestamps"},
			detail: "messages 4.1 and 1.1 are both for groups 1 and 2",
		},
		"a correct process misses a message": {
			history: newScript().multicast(1001, 1).deliver(1001, 1, 1, 3),
			broken:  []string{"validity", "agreement"},
			detail:  "message 1.1 to groups [1] was delivered by process 1 and not by its correct destinations [2]",
		},
		"nobody delivers the message of a correct process": {
			history: newScript().multicast(1001, 2),
			broken:  []string{"validity"},
			detail:  "message 1.1 to groups [2], multicast at 1s, was not delivered by its correct destinations [4 5 6]",
		},
		"nobody delivers the message of a sender that stopped": {history: newScript().faulty(1).multicast(1001, 2)},
		"nobody delivers a message that was lost":              {history: newScript().multicast(1001, 2).lost()},
		"only one process delivers a message that was lost": {
			history: newScript().multicast(1001, 2).lost().deliver(1001, 1, 4).deliver(1001, 1, 6),
			broken:  []string{"agreement"},
			detail:  "not by its correct destinations [5]",
		},
		"only a process that stopped delivers": {
			history: newScript().faulty(1).faulty(4).multicast(1001, 2).deliver(1001, 1, 4),
			broken:  []string{"agreement"},
			detail:  "was delivered by process 4 and not by its correct destinations [5 6]",
		},
		"a process that stopped misses a message": {
			history: newScript().faulty(3).multicast(1001, 1).deliver(1001, 1, 1, 2),
		},
		"delivered twice": {
			history: newScript().multicast(1001, 1).multicast(1002, 1).
				deliver(1001, 1, 1, 2, 3).deliver(1001, 1, 2).deliver(1002, 2, 1, 2, 3).deliver(1001, 3, 2),
			broken: []string{"integrity"},
			detail: "process 2 delivered message 1.1 at 4s: for the second time",
		},
		"delivered without being multicast": {
			history: newScript().deliver(1001, 1, 1, 2, 3),
			broken:  []string{"integrity"},
			detail:  "process 1 delivered message 1.1 at 1s: nobody multicast it",
		},
		"delivered before it was multicast": {
			history: newScript().deliver(1001, 1, 1, 2, 3).multicast(1001, 1),
			broken:  []string{"integrity", "atomic global order"},
			detail:  "it was multicast later, at 2s",
		},
		"delivered by a process that is no destination": {
			history: newScript().multicast(1001, 1).deliver(1001, 1, 1, 2, 3, 4),
			broken:  []string{"integrity"},
			detail:  "process 4 delivered message 1.1 at 2s: it is for groups [1], and the process is of group 2",
		},
		"delivered by nobody that is known": {
			history: newScript().multicast(1001, 1).deliver(1001, 1, 1, 2, 3, 99),
			broken:  []string{"integrity"},
			detail:  "there is no such process",
		},
		"a hole in the sequence of a process that stopped": { // T 2.2.1, the example
			history: newScript().faulty(2).
				multicast(1001, 1).multicast(1002, 1).
				deliver(1001, 1, 1, 3).deliver(1002, 2, 1, 2, 3),
			broken: []string{"prefix order"},
			detail: "process 2 delivered 1.2 without 1.1 before it, process 1 delivered 1.1 without 1.2 before it",
		},
		"two processes stop after different first messages": {
			history: newScript().faulty(1).faulty(4).
				multicast(1001, 1, 2).lost().multicast(1002, 1, 2).lost().
				deliver(1001, 1, 1).deliver(1002, 1, 4).
				faulty(2).faulty(3).faulty(5).faulty(6),
			broken: []string{"prefix order"},
			detail: "messages 1.2 and 1.1 are both for groups 1 and 2",
		},
		"two processes swap two messages": {
			history: newScript().
				multicast(1001, 1).multicast(1002, 1).
				deliver(1001, 1, 1, 2).deliver(1002, 1, 1, 2).deliver(1002, 1, 3).deliver(1001, 1, 3),
			broken: []string{"prefix order", "acyclic order", "atomic global order", "timestamps"},
			detail: "cycle: 1.1, before 1.2 at process 1, before 1.1 at process 3",
		},
		"a cycle of three groups": { // T 2.2.1, the example; no two messages have both groups in common
			history: newScript().
				multicast(1001, 1, 3).multicast(4001, 1, 2).multicast(7001, 2, 3).
				deliver(1001, 1, 1, 2, 3).deliver(4001, 2, 1, 2, 3).
				deliver(4001, 2, 4, 5, 6).deliver(7001, 3, 4, 5, 6).
				deliver(7001, 3, 7, 8, 9).deliver(1001, 1, 7, 8, 9),
			broken: []string{"acyclic order", "atomic global order", "timestamps"},
			detail: "cycle: 1.1, before 4.1 at process 1, before 7.1 at process 4, before 1.1 at process 7",
		},
		"a range query sees the second write and not the first": { // T figure 5.2 (top)
			history: newScript().multicast(9001, 1, 2).deliver(9001, 7, 1, 2, 3).
				multicast(7001, 1).deliver(7001, 8, 1, 2, 3).
				multicast(8001, 2).deliver(8001, 2, 4, 5, 6).deliver(9001, 7, 4, 5, 6),
			broken: []string{"atomic global order"},
			detail: "cycle: 9.1, delivered at process 1 at 2s and so before 8.1, which was multicast at 5s, before 9.1 at process 4",
		},
		"a cycle through real time twice": {
			history: newScript().multicast(1001, 1, 2).multicast(4001, 2, 3).
				deliver(1001, 5, 1, 2, 3).deliver(4001, 9, 7, 8, 9).
				multicast(7001, 3).deliver(7001, 10, 7, 8, 9).multicast(4002, 2).
				deliver(4002, 3, 4, 5, 6).deliver(4001, 9, 4, 5, 6).deliver(1001, 5, 4, 5, 6),
			broken: []string{"atomic global order", "timestamps"},
		},
		"what has the same time has no order": {
			history: func() *script {
				s := newScript().multicast(9001, 1, 2).deliver(9001, 7, 1, 2, 3)
				s.now -= time.Second
				return s.multicast(8001, 2).deliver(8001, 2, 4, 5, 6).deliver(9001, 7, 4, 5, 6)
			}(),
		},
		"a range query that does not ask": {
			history: newScript().multicast(9001, 1, 2).acyclic().deliver(9001, 7, 1, 2, 3).
				multicast(7001, 1).deliver(7001, 8, 1, 2, 3).
				multicast(8001, 2).deliver(8001, 2, 4, 5, 6).deliver(9001, 7, 4, 5, 6),
		},
		"writes to one group count without asking": {
			history: newScript().multicast(9001, 1, 2).deliver(9001, 7, 1, 2, 3).
				multicast(8001, 2).acyclic().deliver(8001, 2, 4, 5, 6).deliver(9001, 7, 4, 5, 6),
			broken: []string{"atomic global order"},
		},
		"a message that does not ask stands between two that do": {
			history: newScript().multicast(9001, 1, 2).deliver(9001, 7, 1, 2, 3).
				multicast(8001, 2).deliver(8001, 2, 4, 5, 6).
				multicast(7001, 2, 3).acyclic().deliver(7001, 3, 4, 5, 6, 7, 8, 9).deliver(9001, 7, 4, 5, 6),
			broken: []string{"atomic global order"},
			detail: "cycle: 9.1, delivered at process 1 at 2s and so before 8.1, which was multicast at 3s, before 9.1 at process 4",
		},
		"the flaw of algorithm 4": { // groups 1, 2, 3 are G, H, K of package skeen
			history: newScript().multicast(2002, 2, 3).multicast(1001, 1, 2).deliver(1001, 10, 1, 2, 3).
				multicast(4001, 1).deliver(4001, 11, 1, 2, 3).
				multicast(3003, 3).deliver(3003, 1, 7, 8, 9).
				deliver(2002, 9, 4, 5, 6, 7, 8, 9).deliver(1001, 10, 4, 5, 6),
			broken: []string{"atomic global order"},
		},
		"two processes swap two messages that do not conflict": {
			history: newScript().conflicts(1001, 1003).
				multicast(1001, 1).multicast(1002, 1).multicast(1003, 1).
				deliver(1001, 1, 1, 2).deliver(1002, 1, 1, 2).deliver(1002, 1, 3).deliver(1001, 1, 3).
				deliver(1003, 2, 1, 2, 3),
		},
		"two processes swap two messages that conflict, with another one between": {
			history: newScript().conflicts(1001, 1003).
				multicast(1001, 1).multicast(1002, 1).multicast(1003, 1).
				deliver(1001, 1, 1, 2).deliver(1002, 9, 1, 2).deliver(1003, 2, 1, 2, 3).deliver(1002, 9, 3).deliver(1001, 1, 3),
			broken: []string{"prefix order", "acyclic order", "atomic global order", "timestamps"},
			detail: "process 3 delivered message 1.1 with final timestamp 1 after message 1.3 with 2",
		},
		"a cycle of three groups, where two do not conflict": {
			history: newScript().conflicts(1001, 4001, 4001, 7001).
				multicast(1001, 1, 3).multicast(4001, 1, 2).multicast(7001, 2, 3).
				deliver(1001, 1, 1, 2, 3).deliver(4001, 2, 1, 2, 3).
				deliver(4001, 2, 4, 5, 6).deliver(7001, 3, 4, 5, 6).
				deliver(7001, 3, 7, 8, 9).deliver(1001, 1, 7, 8, 9),
		},
		"a cycle of three groups, where all conflict that meet": {
			history: newScript().conflicts(1001, 4001, 4001, 7001, 7001, 1001).
				multicast(1001, 1, 3).multicast(4001, 1, 2).multicast(7001, 2, 3).
				deliver(1001, 1, 1, 2, 3).deliver(4001, 2, 1, 2, 3).
				deliver(4001, 2, 4, 5, 6).deliver(7001, 3, 4, 5, 6).
				deliver(7001, 3, 7, 8, 9).deliver(1001, 1, 7, 8, 9),
			broken: []string{"acyclic order", "atomic global order", "timestamps"},
		},
		"two final timestamps of one message": {
			history: newScript().multicast(1001, 1, 2).deliver(1001, 1, 1, 2, 3, 4, 5).deliver(1001, 2, 6),
			broken:  []string{"timestamps"},
			detail:  "message 1.1 has the final timestamp 1 at process 1 and 2 at process 6",
		},
		"timestamps that do not grow": {
			history: newScript().multicast(1002, 1).multicast(1001, 1).deliver(1002, 1, 1, 2, 3).deliver(1001, 1, 1, 2, 3),
			broken:  []string{"timestamps"},
			detail:  "process 1 delivered message 1.1 with final timestamp 1 after message 1.2 with 1",
		},
		"a final timestamp at the bound": {
			history: newScript().multicast(1001, 1, 2).after(4).deliver(1001, 4, everywhere...),
			broken:  []string{"timestamps"},
			detail:  "with final timestamp 4, which had to be above 4",
		},
		"a step of a process that nothing concerns": {
			history: newScript().multicast(1001, 1).deliver(1001, 1, 1, 2, 3).step(1).step(4),
			broken:  []string{"genuineness"},
			detail:  "process 4 of group 2 took a step at 2s: no message concerns it",
		},
		"a step before anything concerns the process": {
			history: newScript().multicast(1001, 1).step(4).deliver(1001, 1, 1, 2, 3).multicast(4001, 1).deliver(4001, 2, 1, 2, 3),
			broken:  []string{"genuineness"},
			detail:  "process 4 of group 2 took a step at 1s: the first message that concerns it was multicast at 3s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all string
			for property, check := range checks {
				found := check(&c.history.History)
				if slices.Contains(c.broken, property) {
					require.NotEmpty(t, found, property)
				} else {
					require.Empty(t, found, property)
				}
				for _, v := range found {
					require.Equal(t, property, v.Property)
				}
				all += Describe(found)
			}
			require.Contains(t, all, c.detail)
		})
	}
}

func TestAll(t *testing.T) {
	h := newScript().multicast(1001, 1).multicast(1002, 1).deliver(1001, 2, 1, 2).deliver(1002, 1, 1, 2, 3)
	var properties []string
	for _, v := range All(&h.History) {
		properties = append(properties, v.Property)
	}
	require.Equal(t, []string{"prefix order", "timestamps", "timestamps", "validity", "agreement"}, properties)
}

func TestLatency(t *testing.T) {
	bounds := Bounds{Step: time.Second, CollisionFree: 3, FailureFree: 5}
	// at is a message to one group whose last process delivers late.
	at := func(n uint64, multicastAt, deliveredAt time.Duration, group multicast.GroupID) *script {
		s := newScript()
		s.Multicasts = []Multicast{{ID: id(n), Dest: []multicast.GroupID{group}, At: multicastAt * time.Second}}
		for p, when := range []time.Duration{multicastAt + 1, multicastAt + 1, deliveredAt} {
			s.Deliveries = append(s.Deliveries, Delivery{Process: multicast.ProcessID(3*int(group) - 2 + p), ID: id(n), At: when * time.Second})
		}
		return s
	}
	with := func(a, b *script) *History {
		a.Multicasts = append(a.Multicasts, b.Multicasts...)
		a.Deliveries = append(a.Deliveries, b.Deliveries...)
		return &a.History
	}
	require.Empty(t, Latency(&at(1001, 0, 3, 1).History, bounds))
	require.Contains(t, Describe(Latency(&at(1001, 0, 4, 1).History, bounds)),
		"process 3 delivered message 1.1 4.00 steps after it was multicast at 0s: collision-free latency is at most 3")
	// The second message is concurrent, so five steps are allowed, and no more.
	require.Empty(t, Latency(with(at(1001, 0, 5, 1), at(1002, 4, 6, 1)), bounds))
	require.Contains(t, Describe(Latency(with(at(1001, 0, 6, 1), at(1002, 4, 6, 1)), bounds)), "failure-free latency is at most 5")
	// It does not conflict, or it comes after the last delivery.
	require.Len(t, Latency(with(at(1001, 0, 5, 1), at(1002, 4, 6, 2)), bounds), 1)
	require.Len(t, Latency(with(at(1001, 0, 5, 1), at(1002, 5, 7, 1)), bounds), 1)
}
