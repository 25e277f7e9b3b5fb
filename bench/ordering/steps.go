package ordering

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Steps are latencies in one-way delays, from the proposal at any process to the delivery at
// any destination: the longest seen.
type Steps struct {
	Protocol string `json:"protocol"`
	// Alone: one message at a time (collision-free latency, T 4.1.2).
	Alone Delays `json:"alone"`
	// Crowd: many at random times. The failure-free latency is at least this, and
	// seldom much more.
	Crowd Delays `json:"crowd"`
}

// Delays are the longest delays by role: a group's primary often delivers earlier than its followers.
type Delays struct {
	Primaries float64 `json:"primaries"`
	Followers float64 `json:"followers"`
}

const (
	aloneMessages = 64
	aloneEvery    = 80 * unit // on average, at least half
	crowdMessages = 1000
	crowdEvery    = unit / 50
	patience      = 2000 // units, after the last proposal
)

// countSteps measures Steps with messages to 1 to 8 groups.
func countSteps(ctx context.Context, p *Protocol, seed uint64) (Steps, error) {
	alone, err := delays(ctx, p, seed, aloneMessages, aloneEvery)
	if err != nil {
		return Steps{}, err
	}
	crowd, err := delays(ctx, p, seed, crowdMessages, crowdEvery)
	return Steps{Protocol: p.Name, Alone: alone, Crowd: crowd}, err
}

// delays multicasts so many messages from random processes to random groups, one at a
// time or at random times that overlap.
func delays(ctx context.Context, p *Protocol, seed uint64, messages int, every time.Duration) (Delays, error) {
	scenario := uniform()
	groups, places := deployment(groupCount, members)
	n, err := newNetwork(build{scenario: &scenario, protocol: p, seed: seed, groups: groups, places: places})
	if err != nil {
		return Delays{}, fmt.Errorf("%s: %w", p.Name, err)
	}
	s := &stepper{net: n, order: p.Order, proposed: map[multicast.MessageID]time.Duration{}}
	for _, q := range n.processes {
		q.deliver = s.deliver
	}
	at := aloneEvery // after the links have started
	for i := range messages {
		s.multicast(at, uint64(i+1))
		at += every/2 + time.Duration(n.rng.Int64N(int64(every)))
	}
	if err := n.run(at, ctx.Err); err != nil {
		return Delays{}, err
	}
	for waited := 0; s.missing > 0; waited++ {
		if waited == patience {
			return Delays{}, fmt.Errorf("%s: %d deliveries are missing %d delays after the last of %d messages", p.Name, s.missing, patience, messages)
		}
		if err := n.run(n.now+unit, ctx.Err); err != nil {
			return Delays{}, err
		}
	}
	return Delays{Primaries: inUnits(s.longest[0]), Followers: inUnits(slices.Max(s.longest[1:]))}, nil
}

// stepper records the latencies of deliveries.
type stepper struct {
	net      *network
	order    multicast.Order
	proposed map[multicast.MessageID]time.Duration
	missing  int                    // deliveries
	longest  [members]time.Duration // by member of a group
}

// multicast sends a message with a number of its own at a time.
func (s *stepper) multicast(at time.Duration, seq uint64) {
	rng := s.net.rng
	sender := s.net.processes[rng.IntN(len(s.net.processes))]
	m := multicast.Message{
		ID:    multicast.MessageID{Sender: sender.id, Seq: seq},
		Dest:  choose(rng, sender.place.group, 1+rng.IntN(groupCount)),
		Order: s.order,
	}
	s.proposed[m.ID] = at
	s.missing += members * len(m.Dest)
	s.net.schedule(at, func() { sender.propose(m) })
}

func (s *stepper) deliver(p *process, d *multicast.Delivery) {
	m := p.place.member
	s.longest[m] = max(s.longest[m], s.net.now-s.proposed[d.ID])
	s.missing--
}

// inUnits has two digits.
func inUnits(d time.Duration) float64 {
	return math.Round(100*d.Seconds()/unit.Seconds()) / 100
}
