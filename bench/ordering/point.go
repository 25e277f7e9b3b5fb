package ordering

import (
	"context"
	"fmt"
	"time"
)

// Point is one measurement.
type Point struct {
	Scenario     string `json:"scenario"`
	Protocol     string `json:"protocol"`
	Destinations int    `json:"destinations"`
	Outstanding  int    `json:"outstanding"` // for each of the clients

	Window     float64 `json:"window_ms"`        // of virtual time
	Messages   int     `json:"messages"`         // completed in the window
	Throughput float64 `json:"throughput_per_s"` // of all clients
	Median     float64 `json:"median_ms"`
	P95        float64 `json:"p95_ms"`
	// Busy is the part of the window in which the busiest process computed, 0 to 1.
	Busy float64 `json:"busy"`
	// CPU is the computing time of all processes together for one message; Core is the measured part of it.
	CPU  float64 `json:"cpu_us_per_message"`
	Core float64 `json:"core_us_per_message"`
	// Frames is the number of frames that crossed the network for one message.
	Frames float64 `json:"frames_per_message"`
	// Latencies are the percentiles 0 to 100.
	Latencies []float64 `json:"latency_percentiles_ms"`
}

// load is the load of a Point.
type load struct {
	scenario                  *Scenario
	protocol                  *Protocol
	destinations, outstanding int
}

func (l *load) String() string {
	return fmt.Sprintf("%s, %d destinations, %d outstanding, %s", l.scenario.Name, l.destinations, l.outstanding, l.protocol.Name)
}

// window is longer for few outstanding messages, which give few samples and cost little time.
func (l *load) window() time.Duration {
	return l.scenario.Window * time.Duration(min(4, max(1, 16/l.outstanding)))
}

// measurement is a running measurement of one load.
type measurement struct {
	*load
	net       *network
	latencies sample
	between   func() error
}

// measure runs one load.
func (c *Config) measure(ctx context.Context, l *load) (Point, error) {
	gc := newCollector()
	defer gc.close()
	gc.collect()
	groups, places := deployment(groupCount, members)
	n, err := newNetwork(build{
		scenario: l.scenario, protocol: l.protocol, cost: c.Cost, skew: c.Skew, unpacked: c.Unpacked, seed: c.Seed, groups: groups, places: places,
	})
	if err != nil {
		return Point{}, fmt.Errorf("%v: %w", l, err)
	}
	m := &measurement{load: l, net: n, between: func() error {
		gc.collect()
		return ctx.Err()
	}}
	n.startClients(l, make([]byte, c.Payload), func(latency time.Duration) { m.latencies = append(m.latencies, latency) })
	if err := m.warmUp(); err != nil {
		return Point{}, err
	}
	window := max(l.window(), n.now/rounds)
	before := n.uses()
	m.latencies = nil
	if err := n.run(n.now+window, m.between); err != nil {
		return Point{}, err
	}
	if len(m.latencies) == 0 {
		return Point{}, fmt.Errorf("%v: no message was delivered in the last %v of virtual time", l, window)
	}
	return newPoint(m, window, before), nil
}

const (
	rounds = 2  // of all clients, before the measurement begins
	tries  = 10 // at most so many warm-ups
)

// warmUp takes the scenario's time, and longer for slow protocols: it ends when the clients have had some
// rounds of messages delivered, or after a number of tries.
func (m *measurement) warmUp() error {
	for range tries {
		if err := m.net.run(m.net.now+m.scenario.Warmup, m.between); err != nil {
			return err
		}
		if len(m.latencies) >= rounds*m.outstanding*len(m.net.processes) {
			return nil
		}
	}
	return nil
}

// startClients starts one beside each process. The first messages of each are spread over the longest round
// trip, so that the clients do not march in step.
func (n *network) startClients(l *load, payload []byte, completed func(time.Duration)) {
	spread := int64(l.scenario.longest())
	for _, p := range n.processes {
		c := &client{
			process: p, destinations: l.destinations, payload: payload, order: l.protocol.Order, think: l.scenario.Think,
			proposed: map[uint64]time.Duration{}, completed: completed,
		}
		p.deliver = c.deliver
		for range l.outstanding {
			n.schedule(time.Duration(n.rng.Int64N(spread)), c.propose)
		}
	}
}

// uses gives the work of each process until now.
func (n *network) uses() (all []use) {
	for _, p := range n.processes {
		u := p.use
		u.busy -= max(0, p.free-n.now)
		all = append(all, u)
	}
	return all
}

// newPoint sums up the window that ends now.
func newPoint(m *measurement, window time.Duration, before []use) Point {
	var total use
	var busiest time.Duration
	for i, after := range m.net.uses() {
		busy := after.busy - before[i].busy
		busiest = max(busiest, busy)
		total.busy += busy
		total.measured += after.measured - before[i].measured
		total.frames += after.frames - before[i].frames
	}
	count := float64(len(m.latencies))
	d := m.latencies.distribution()
	return Point{
		Scenario: m.scenario.Name, Protocol: m.protocol.Name, Destinations: m.destinations, Outstanding: m.outstanding,
		Window:     milliseconds(window),
		Messages:   len(m.latencies),
		Throughput: count / window.Seconds(),
		Median:     d[50], P95: d[95],
		Busy:      busiest.Seconds() / window.Seconds(),
		CPU:       float64(total.busy.Microseconds()) / count,
		Core:      float64(total.measured.Microseconds()) / count,
		Frames:    float64(total.frames) / count,
		Latencies: d,
	}
}
