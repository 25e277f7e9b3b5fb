package carrier

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/topology"
)

// Latency is the time of one operation without other load.
type Latency struct {
	Carrier   string            `json:"carrier"`
	Operation string            `json:"operation"`
	Parties   []topology.Region `json:"parties"` // the first one receives the request
	Client    topology.Region   `json:"client"`
	Slowest   float64           `json:"slowest_rtt_ms"` // round trip of the slowest link that the operation needs
	P50       float64           `json:"p50_ms"`
	P99       float64           `json:"p99_ms"`
	Trips50   float64           `json:"p50_rtt"` // P50 in round trips of the slowest link
	Trips99   float64           `json:"p99_rtt"`
}

// Cost is the cost of one command, without other load, beyond the traffic of an idle cluster.
type Cost struct {
	Carrier   string            `json:"carrier"`
	Operation string            `json:"operation"`
	Parties   []topology.Region `json:"parties"`
	Messages  float64           `json:"between_messages"` // in the order between partitions
	Entries   float64           `json:"own_entries"`      // in the own orders of all parties
	Relays    float64           `json:"relays"`           // of Entries: BEGIN and PREPARE
	Decisions float64           `json:"decisions"`        // of Entries: DECIDE and OUTCOME
	Forgets   float64           `json:"forgets"`          // of Entries
	Frames    float64           `json:"frames"`
	Bytes     float64           `json:"bytes"`
	Wide      float64           `json:"wide_frames"` // of Frames, between regions
	WideBytes float64           `json:"wide_bytes"`
}

// settleTime is the time in which a cluster finishes work without waiting clients.
const settleTime = 10 * time.Second

// pause is the time between two operations without other load.
const pause = 500 * time.Millisecond

// latency measures the latency and the cost of one act with one carrier.
func (c *Config) latency(carrier *virtual.Carrier, a *act) (Latency, Cost, error) {
	l := Latency{
		Carrier: carrier.Name, Operation: a.operation, Parties: a.names(c.Regions), Client: c.Regions[a.client],
		Slowest: milliseconds(a.slowest(c.Regions)),
	}
	k, err := virtual.New(virtual.Config{Carrier: carrier, Regions: c.Regions, Seed: c.Seed})
	if err != nil {
		return l, Cost{}, err
	}
	x, err := a.start(k)
	if err != nil {
		return l, Cost{}, err
	}
	k.Pass(settleTime)
	before := snapshot(k)
	k.Pass(settleTime)
	idle := snapshot(k).minus(before)
	before, since := snapshot(k), k.Now
	var all []time.Duration
	for range c.Samples {
		took, err := x.step()
		if err != nil {
			return l, Cost{}, err
		}
		all = append(all, took)
		k.Pass(pause)
	}
	k.Pass(settleTime)
	used := snapshot(k).minus(before).minus(idle.times(float64(k.Now-since) / float64(settleTime)))
	l.P50, l.P99 = percentile(all, 50), percentile(all, 99)
	l.Trips50, l.Trips99 = l.P50/l.Slowest, l.P99/l.Slowest
	cost := used.times(1 / float64(c.Samples)).cost()
	cost.Carrier, cost.Operation, cost.Parties = l.Carrier, l.Operation, l.Parties
	return l, cost, k.Verify()
}

// counts are the counters of a cluster.
type counts struct {
	messages, frames, bytes, wide, wideBytes float64
	entries, relays, decisions, forgets      float64
}

// snapshot reads the counters.
func snapshot(k *virtual.Cluster) (n counts) {
	n.messages = float64(k.Messages)
	n.frames, n.bytes = float64(k.Traffic.Frames), float64(k.Traffic.Bytes)
	n.wide, n.wideBytes = float64(k.Traffic.WideFrames), float64(k.Traffic.WideBytes)
	of := func(kinds ...order.Kind) (sum float64) {
		for _, kind := range kinds {
			sum += float64(k.Entries[kind])
		}
		return sum
	}
	for _, count := range k.Entries {
		n.entries += float64(count)
	}
	n.relays = of(cross.EntryRelay)
	n.decisions = of(cross.EntryDecide, cross.EntryOutcome, cross.EntryAbort)
	n.forgets = of(cross.EntryForget)
	return n
}

// with combines each counter of two counts.
func (n counts) with(o counts, f func(a, b float64) float64) counts {
	return counts{
		messages: f(n.messages, o.messages), frames: f(n.frames, o.frames), bytes: f(n.bytes, o.bytes), wide: f(n.wide, o.wide),
		wideBytes: f(n.wideBytes, o.wideBytes), entries: f(n.entries, o.entries), relays: f(n.relays, o.relays),
		decisions: f(n.decisions, o.decisions), forgets: f(n.forgets, o.forgets),
	}
}

func (n counts) minus(o counts) counts {
	return n.with(o, func(a, b float64) float64 { return a - b })
}

func (n counts) times(by float64) counts {
	return n.with(counts{}, func(a, _ float64) float64 { return a * by })
}

func (n counts) cost() Cost {
	return Cost{
		Messages: n.messages, Entries: n.entries, Relays: n.relays, Decisions: n.decisions, Forgets: n.forgets,
		Frames: n.frames, Bytes: n.bytes, Wide: n.wide, WideBytes: n.wideBytes,
	}
}

// percentile returns the smallest of the times, in milliseconds, that percent of them do not exceed. It sorts
// them.
func percentile(all []time.Duration, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	rank := (len(all)*percent + 99) / 100 // rounded up
	return milliseconds(all[max(rank, 1)-1])
}

// milliseconds has whole microseconds, so that equal runs print alike.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond).Microseconds()) / 1000
}
