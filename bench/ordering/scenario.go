package ordering

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// The deployment of T 4.5.2.
const (
	groupCount = 8
	members    = 3 // of a group
)

// Scenario is one line of T Table 4.1.
type Scenario struct {
	Name   string
	Title  string
	Figure string // the thesis'
	// Destinations are the ones that the thesis shows.
	Destinations []int
	// Warmup is cut off; Window is measured after it. Both are in virtual time, and longer when few messages
	// are delivered.
	Warmup, Window time.Duration
	// Think is the mean time between a delivery and the client's next message (package doc).
	Think time.Duration

	roundTrip func(a, b place) time.Duration
	deviation float64 // standard deviation of a latency, as a part of it
}

// place is the place of a process: member m of group g. The first member leads.
type place struct {
	group  int
	member int
}

// lanRoundTrip is that of the thesis' cluster, and of two processes in one datacenter.
const lanRoundTrip = 90 * time.Microsecond

const deviation = 0.05

// Scenarios gives all of T Table 4.1.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "lan", Title: "LAN", Figure: "4.2", Destinations: []int{2},
			Warmup: 10 * time.Millisecond, Window: 40 * time.Millisecond, Think: 10 * time.Microsecond,
			roundTrip: func(place, place) time.Duration { return lanRoundTrip },
			deviation: deviation,
		},
		{
			Name: "colocated", Title: "WAN, colocated leaders", Figure: "4.3", Destinations: []int{1, 2, 4, 8},
			Warmup: 300 * time.Millisecond, Window: 250 * time.Millisecond, Think: 10 * time.Millisecond,
			roundTrip: colocated, deviation: deviation,
		},
		{
			Name: "distributed", Title: "WAN, distributed leaders", Figure: "4.4", Destinations: []int{2, 4},
			Warmup: 400 * time.Millisecond, Window: 300 * time.Millisecond, Think: 10 * time.Millisecond,
			roundTrip: distributed, deviation: deviation,
		},
	}
}

// colocated: a region for each member of every group. The leaders are in the region where the two shorter
// round trips meet: the thesis does not name their region.
func colocated(a, b place) time.Duration {
	if a.member > b.member {
		a, b = b, a
	}
	switch {
	case a.member == b.member:
		return lanRoundTrip
	case a.member == 1:
		return 130 * time.Millisecond
	case b.member == 1:
		return 60 * time.Millisecond
	}
	return 76 * time.Millisecond
}

// distributed returns the round trip between two members when each group has a region of its own, and each
// member a datacenter of its own.
func distributed(a, b place) time.Duration {
	if a.group != b.group {
		return 90 * time.Millisecond
	}
	return 30 * time.Millisecond
}

// unit is the time of a communication step when steps are counted.
const unit = 100 * time.Millisecond

// uniform has links of one unit in each direction.
func uniform() Scenario {
	return Scenario{
		Name: "unit", Title: "links of one unit",
		roundTrip: func(place, place) time.Duration { return 2 * unit },
	}
}

// longest returns the longest round trip.
func (s *Scenario) longest() time.Duration {
	var longest time.Duration
	for g := range groupCount {
		for m := range members {
			longest = max(longest, s.roundTrip(place{}, place{g, m}), s.roundTrip(place{0, 1}, place{g, m}))
		}
	}
	return longest
}

// deployment gives the groups, and the place of each process. Process i+1 is at places[i].
func deployment(count, size int) (groups []multicast.Group, places []place) {
	for g := range count {
		group := multicast.Group{ID: multicast.GroupID(g)}
		for m := range size {
			places = append(places, place{g, m})
			group.Members = append(group.Members, multicast.ProcessID(len(places)))
		}
		groups = append(groups, group)
	}
	return groups, places
}
