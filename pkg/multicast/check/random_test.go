package check

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// randomHistory returns a correct run, with a few neighbours swapped, deliveries dropped and tails cut.
func randomHistory(seed uint64) *History {
	rng := rand.New(rand.NewPCG(seed, 3))
	h := &History{}
	groups := 1 + rng.IntN(4)
	for g := range groups {
		for range 1 + rng.IntN(3) {
			h.Processes = append(h.Processes, Process{ID: multicast.ProcessID(len(h.Processes) + 1), Group: multicast.GroupID(g), Correct: true})
		}
	}
	for n := range 1 + rng.IntN(12) {
		m := Multicast{ID: multicast.MessageID{Sender: 1, Seq: uint64(n)}, At: time.Duration(rng.IntN(30))}
		if rng.IntN(4) > 0 {
			m.Order = multicast.AtomicGlobal
		}
		for g := range groups {
			if rng.IntN(2) == 0 {
				m.Dest = append(m.Dest, multicast.GroupID(g))
			}
		}
		h.Multicasts = append(h.Multicasts, m)
	}
	switch rng.IntN(3) {
	case 0:
		h.Classes = true
	case 1: // not transitive: 0 and 1 conflict, 1 and 2, not 0 and 2
		h.Conflict = func(a, b multicast.MessageID) bool { d := max(a.Seq, b.Seq) - min(a.Seq, b.Seq); return d%3 == 1 }
	}
	mess := rng.IntN(3)
	for _, p := range h.Processes {
		h.Deliveries = append(h.Deliveries, randomOrder(h, p, mess, rng)...)
	}
	return h
}

// randomOrder delivers the messages to p by number, with some mess.
func randomOrder(h *History, p Process, mess int, rng *rand.Rand) []Delivery {
	var order []Delivery
	for n, m := range h.Multicasts {
		if slices.Contains(m.Dest, p.Group) {
			order = append(order, Delivery{Process: p.ID, ID: m.ID, Final: multicast.Timestamp(n + 1)})
		}
	}
	for range mess {
		if i := rng.IntN(12); i+1 < len(order) {
			order[i], order[i+1] = order[i+1], order[i]
		}
		if i := rng.IntN(24); i < len(order) {
			order = slices.Delete(order, i, i+1)
		}
	}
	if rng.IntN(4) == 0 {
		order = order[:rng.IntN(len(order)+1)]
	}
	at := time.Duration(0)
	for i := range order {
		at += time.Duration(rng.IntN(5))
		order[i].At = at
	}
	return order
}

// TestAgainstTheObviousChecks compares with the definitions, taken literally.
func TestAgainstTheObviousChecks(t *testing.T) {
	var broken, fine [4]int
	for seed := range uint64(6000) {
		h := randomHistory(seed)
		for i, both := range [...]struct {
			name    string
			fast    []Violation
			obvious bool
		}{
			{"prefix order", PrefixOrder(h), obviousPrefixOrder(h)},
			{"acyclic order", AcyclicOrder(h), !hasCycle(deliveredBefore(h))},
			{"atomic global order", AtomicGlobalOrder(h), !hasCycle(atomicGlobal(h))},
			{"timestamps", Timestamps(h), obviousPositions(h)},
		} {
			require.Equal(t, both.obvious, len(both.fast) == 0, "seed %d, %s: %s", seed, both.name, Describe(both.fast))
			if both.obvious {
				fine[i]++
			} else {
				broken[i]++
			}
		}
		requireRealCycle(t, h, AcyclicOrder(h), deliveredBefore(h))
		requireRealCycle(t, h, AtomicGlobalOrder(h), atomicGlobal(h))
	}
	for i := range broken {
		require.Greater(t, broken[i], 300)
		require.Greater(t, fine[i], 300)
	}
}

// obviousPrefixOrder is the definition of thesis 2.2.1.
func obviousPrefixOrder(h *History) bool {
	place := places(h)
	for _, m := range h.Multicasts {
		for _, o := range h.Multicasts {
			for _, p := range h.Processes {
				for _, q := range h.Processes {
					if m.ID == o.ID || !conflict(h, m.ID, o.ID) || !isCommon(m, o, p.Group) || !isCommon(m, o, q.Group) {
						continue
					}
					pm, ok1 := place[at{p.ID, m.ID}]
					qo, ok2 := place[at{q.ID, o.ID}]
					if !ok1 || !ok2 {
						continue
					}
					po, ok3 := place[at{p.ID, o.ID}]
					qm, ok4 := place[at{q.ID, m.ID}]
					if !(ok3 && po < pm) && !(ok4 && qm < qo) {
						return false
					}
				}
			}
		}
	}
	return true
}

func isCommon(m, o Multicast, g multicast.GroupID) bool {
	return slices.Contains(m.Dest, g) && slices.Contains(o.Dest, g)
}

type at struct {
	process multicast.ProcessID
	id      multicast.MessageID
}

func places(h *History) map[at]int {
	place := map[at]int{}
	for i, d := range h.Deliveries {
		place[at{d.Process, d.ID}] = i
	}
	return place
}

type relation map[[2]multicast.MessageID]bool

func deliveredBefore(h *History) relation {
	r := relation{}
	for i, d := range h.Deliveries {
		for _, e := range h.Deliveries[i+1:] {
			if d.Process == e.Process && conflict(h, d.ID, e.ID) {
				r[[2]multicast.MessageID{d.ID, e.ID}] = true
			}
		}
	}
	return r
}

func multicastAfter(h *History) relation {
	r := relation{}
	for _, d := range h.Deliveries {
		for _, m := range h.Multicasts {
			if d.At < m.At {
				r[[2]multicast.MessageID{d.ID, m.ID}] = true
			}
		}
	}
	return r
}

func conflict(h *History, a, b multicast.MessageID) bool {
	if h.Classes {
		return slices.Equal(destOf(h, a), destOf(h, b))
	}
	return h.Conflict == nil || h.Conflict(a, b)
}

func destOf(h *History, id multicast.MessageID) []multicast.GroupID {
	return h.Multicasts[slices.IndexFunc(h.Multicasts, func(m Multicast) bool { return m.ID == id })].Dest
}

// atomicGlobal returns the relation of the doc of package multicast.
func atomicGlobal(h *History) relation {
	counts := map[multicast.MessageID]bool{}
	for _, m := range h.Multicasts {
		counts[m.ID] = m.Order == multicast.AtomicGlobal || len(m.Dest) == 1
	}
	r := deliveredBefore(h)
	maps.Copy(r, multicastAfter(h))
	maps.DeleteFunc(r, func(pair [2]multicast.MessageID, _ bool) bool { return !counts[pair[0]] || !counts[pair[1]] })
	return r
}

// obviousPositions: the final timestamps of randomHistory grow with the numbers of its messages.
func obviousPositions(h *History) bool {
	for pair := range deliveredBefore(h) {
		if pair[0].Seq > pair[1].Seq {
			return false
		}
	}
	return true
}

// hasCycle removes messages without a predecessor until there is none. It reports whether messages are left.
func hasCycle(r relation) bool {
	for {
		after := map[multicast.MessageID]bool{}
		for pair := range r {
			after[pair[1]] = true
		}
		before := len(r)
		for pair := range r {
			if !after[pair[0]] {
				delete(r, pair)
			}
		}
		if len(r) == before {
			return before > 0
		}
	}
}

// requireRealCycle: the messages that a violation names are related among each other in a cycle.
func requireRealCycle(t *testing.T, h *History, violations []Violation, r relation) {
	t.Helper()
	for _, v := range violations {
		among := relation{}
		for pair := range r {
			if slices.Contains(v.Messages, pair[0]) && slices.Contains(v.Messages, pair[1]) {
				among[pair] = true
			}
		}
		require.True(t, hasCycle(among), "%v in %+v", v, h)
	}
}

// BenchmarkAll checks a run of ten thousand messages in eight groups of three processes.
func BenchmarkAll(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	h := &History{}
	for p := range multicast.ProcessID(24) {
		h.Processes = append(h.Processes, Process{ID: p + 1, Group: multicast.GroupID(p / 3), Correct: true})
	}
	for n := range uint64(10000) {
		m := Multicast{ID: multicast.MessageID{Sender: 1, Seq: n}, At: time.Duration(n)}
		for g := range multicast.GroupID(8) {
			if rng.IntN(4) == 0 {
				m.Dest = append(m.Dest, g)
			}
		}
		h.Multicasts = append(h.Multicasts, m)
		for _, p := range h.Processes {
			if slices.Contains(m.Dest, p.Group) {
				h.Deliveries = append(h.Deliveries, Delivery{Process: p.ID, ID: m.ID, Final: multicast.Timestamp(n + 1), At: m.At + 5})
			}
		}
	}
	b.Run(fmt.Sprintf("%d deliveries", len(h.Deliveries)), func(b *testing.B) {
		for b.Loop() {
			if found := append(All(h), AtomicGlobalOrder(h)...); found != nil {
				b.Fatal(Describe(found))
			}
		}
	})
}
