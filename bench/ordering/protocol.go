package ordering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/byzcast"
	"github.com/globalfs/globalfs/bench/baseline/classic"
	"github.com/globalfs/globalfs/bench/baseline/fastcast"
	"github.com/globalfs/globalfs/bench/baseline/multiring"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/bench/baseline/whitebox"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// Protocol is a protocol to measure.
type Protocol struct {
	Name  string
	Title string
	// New makes the core of a process.
	New func(s *setting) (multicast.Core, error)
	// Order is the order that its messages ask for.
	Order multicast.Order
}

// setting is the information that a protocol has about its deployment.
type setting struct {
	self     multicast.ProcessID
	groups   []multicast.Group
	places   []place // of process i+1 at i
	scenario *Scenario
}

// ring goes from the first process to the nearest unvisited one, and so on: through one region, then the
// next. Processes at the same distance are taken by number.
func (s *setting) ring() []multicast.ProcessID {
	left := make([]multicast.ProcessID, len(s.places))
	for i := range left {
		left[i] = multicast.ProcessID(i + 1)
	}
	var ring []multicast.ProcessID
	for at := left[0]; len(left) > 0; {
		next := slices.MinFunc(left, func(p, q multicast.ProcessID) int {
			return cmp.Or(cmp.Compare(s.between(at, p), s.between(at, q)), cmp.Compare(p, q))
		})
		left = slices.DeleteFunc(left, func(p multicast.ProcessID) bool { return p == next })
		ring, at = append(ring, next), next
	}
	return ring
}

// between returns the round trip between two processes; of one to itself it is 0.
func (s *setting) between(p, q multicast.ProcessID) time.Duration {
	if p == q {
		return 0
	}
	return s.scenario.roundTrip(s.places[p-1], s.places[q-1])
}

// Protocols gives all, in the order in which tables and legends show them.
func Protocols() []Protocol {
	return []Protocol{
		{Name: "primcast", Title: "PrimCast", New: newPrimCast(primcast.Config{})},
		{Name: "primcast-hc", Title: "PrimCast HC", New: newPrimCast(primcast.Config{HybridClock: true})},
		{
			Name: "primcast-linearizable", Title: "PrimCast, linearizable", New: newPrimCast(primcast.Config{}),
			Order: multicast.AtomicGlobal,
		},
		{
			Name: "primcast-hc-linearizable", Title: "PrimCast HC, linearizable by clocks",
			New:   newPrimCast(primcast.Config{HybridClock: true, ClockError: time.Millisecond}),
			Order: multicast.AtomicGlobal,
		},
		{
			Name: "whitebox", Title: "White-Box",
			New: func(s *setting) (multicast.Core, error) {
				return whitebox.New(whitebox.Config{Self: s.self, Groups: s.groups})
			},
		},
		{
			Name: "fastcast", Title: "FastCast",
			New: func(s *setting) (multicast.Core, error) {
				return fastcast.New(paxos.Config{Self: s.self, Groups: s.groups})
			},
		},
		{
			Name: "fastcast-late", Title: "FastCast, guesses late",
			New: func(s *setting) (multicast.Core, error) {
				return fastcast.NewLate(paxos.Config{Self: s.self, Groups: s.groups})
			},
		},
		{
			Name: "classic", Title: "Skeen over Paxos",
			New: func(s *setting) (multicast.Core, error) {
				return classic.New(paxos.Config{Self: s.self, Groups: s.groups})
			},
		},
		{
			Name: "byzcast", Title: "ByzCast, crash-tolerant groups",
			New: func(s *setting) (multicast.Core, error) {
				return byzcast.New(byzcast.Config{Self: s.self, Groups: s.groups})
			},
		},
		{Name: "multiring", Title: "Multi-Ring Paxos", New: newMultiRing},
	}
}

func newPrimCast(cfg primcast.Config) func(s *setting) (multicast.Core, error) {
	return func(s *setting) (multicast.Core, error) {
		cfg.Self, cfg.Groups, cfg.Seed = s.self, s.groups, uint64(s.self)
		return primcast.New(cfg)
	}
}

// newMultiRing skips every millisecond in a LAN, as its prototype does, and every 10 ms in a WAN. The rate is
// above the throughput of a group here, and so does not limit it.
func newMultiRing(s *setting) (multicast.Core, error) {
	delta := min(max(s.scenario.longest()/10, time.Millisecond), 10*time.Millisecond)
	return multiring.New(multiring.Config{Self: s.self, Groups: s.groups, Ring: s.ring(), Lambda: 1_000_000, Delta: delta, M: 1})
}

// Named gives the protocols with these names, in their own order.
func Named(names []string) ([]Protocol, error) {
	return pick("protocol", names, Protocols(), func(p *Protocol) string { return p.Name })
}

// ScenariosNamed gives the scenarios with these names, in their own order.
func ScenariosNamed(names []string) ([]Scenario, error) {
	return pick("scenario", names, Scenarios(), func(s *Scenario) string { return s.Name })
}

// pick gives the named elements of all; no names: all.
func pick[T any](what string, names []string, all []T, name func(*T) string) ([]T, error) {
	var known []string
	for i := range all {
		known = append(known, name(&all[i]))
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("there is no %s %q: give some of %s", what, n, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(t T) bool { return !slices.Contains(names, name(&t)) }), nil
}
