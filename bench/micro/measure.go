package micro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/topology"
)

// load is a mix of operations.
type load struct {
	operation string
	regions   []topology.Region
	global    float64 // part of the operations
	shards    int     // partitions of a region; 0: one
	batch     int     // requests that a step of a replica takes at most; 0: all that are there
}

func (l *load) String() string {
	return fmt.Sprintf("%s, %.0f %% global, %d regions, %d shards", l.operation, 100*l.global, len(l.regions), max(1, l.shards))
}

// places returns the partitions that the load uses.
func (l *load) places() (all []place) {
	if l.global < 1 {
		all = append(all, local)
	}
	if l.global > 0 {
		all = append(all, global)
	}
	return all
}

// chunks returns the size of a client's file before the measurement.
func (l *load) chunks() int {
	if l.operation == Read {
		return fileSize / chunk
	}
	return 0
}

// Point is a measurement.
type Point struct {
	Operation string  `json:"operation"`
	Global    float64 `json:"global"` // part of the operations
	Regions   int     `json:"regions"`
	Clients   int     `json:"clients"`      // of each mount, in a closed loop
	PerSecond float64 `json:"per_second"`   // the highest throughput, of all regions
	Least     float64 `json:"least_region"` // of PerSecond, in the region with the least
	Busy      float64 `json:"busy"`         // part of the time in which the busiest server computed
	Servers   float64 `json:"servers_us"`   // CPU time of all servers for an operation
	Mounts    float64 `json:"mounts_us"`    // and of all mounts

	// At half of the throughput.
	Mean      float64   `json:"mean_ms"`
	P50       float64   `json:"p50_ms"`
	P95       float64   `json:"p95_ms"`
	Latencies []float64 `json:"latency_percentiles_ms,omitempty"` // 0 to 100
}

// saturated ends the growth: more clients must raise the throughput by at least this factor.
const saturated = 1.03

// measure finds the highest throughput of a load with growing numbers of clients, and the latencies at half
// of it.
func (c *Config) measure(ctx context.Context, l load, growing []int) (best Point, err error) {
	if best, err = c.highest(ctx, &l, growing); err != nil {
		return best, err
	}
	c.Progress.Say(fmt.Sprintf("%v, half of %.0f/s", &l, best.PerSecond))
	if err = virtual.OrEnded(ctx, c.open(&l, &best)); err != nil {
		err = fmt.Errorf("%v, half load: %w", &l, err)
	}
	return best, err
}

// highest finds the highest throughput of a load with growing numbers of clients.
func (c *Config) highest(ctx context.Context, l *load, growing []int) (best Point, err error) {
	for _, clients := range growing {
		c.Progress.Say(fmt.Sprintf("%v, %d clients at each mount", l, clients))
		p, err := c.closed(l, clients, 0)
		if err = virtual.OrEnded(ctx, err); err != nil {
			return best, fmt.Errorf("%v: %w", l, err)
		}
		grown := p.PerSecond > saturated*best.PerSecond
		if p.PerSecond > best.PerSecond {
			best = p
		}
		if !grown {
			break
		}
	}
	return best, nil
}

// some measures a number of clients in a closed loop, all at the first mount: as processes are measured.
func (c *Config) some(l *load, clients int) (Point, error) { return c.closed(l, 0, clients) }

func (c *Config) window(l *load) time.Duration {
	if l.global > 0 && l.operation != Read {
		return c.Far
	}
	return c.Window
}

// run is a running measurement.
type run struct {
	*world
	*load
	begin, end time.Duration
	counts     []int // completed operations, by region
	took       []time.Duration
}

// one executes an operation of the load, and then calls then.
func (r *run) one(x *worker, then func()) {
	p := local
	if r.global > 0 && r.Random.Float64() < r.global {
		p = global
	}
	x.do(r.operation, p, then)
}

// complete counts an operation that ends now.
func (r *run) complete(x *worker, began time.Duration) {
	if r.Now >= r.begin && r.Now < r.end {
		r.counts[x.mount.region]++
		r.took = append(r.took, r.Now-began)
	}
}

// warmup is the least time before a measurement.
const warmup = 30 * time.Millisecond

// prepare starts a cluster, and begins the measurement after a warm-up.
func (c *Config) prepare(l *load, clients, more int) (*run, error) {
	w, err := newWorld(c, l, clients, more)
	if err != nil {
		return nil, err
	}
	window := c.window(l)
	begin := w.Now + max(window/2, warmup)
	return &run{world: w, load: l, begin: begin, end: begin + window, counts: make([]int, len(l.regions))}, nil
}

// closed measures clients at each mount, and more at the first one, in a closed loop.
func (c *Config) closed(l *load, clients, more int) (Point, error) {
	r, err := c.prepare(l, clients, more)
	if err != nil {
		return Point{}, err
	}
	r.startLoops()
	r.Pass(r.begin - r.Now)
	before, mounts := r.busy(), r.mountBusy()
	r.Pass(r.end - r.Now)
	if r.Err != nil {
		return Point{}, r.Err
	}
	return r.point(clients, before, mounts), nil
}

// startLoops lets each client execute one operation after the other until the end, from different moments on.
func (r *run) startLoops() {
	for _, x := range r.workers {
		var next func()
		next = func() {
			began := r.Now
			if began >= r.end {
				return
			}
			r.one(x, func() {
				r.complete(x, began)
				next()
			})
		}
		r.Schedule(r.Now+time.Duration(r.Random.Int64N(int64(r.begin-r.Now)/2)), next)
	}
}

// point sums up a measurement that ends now.
func (r *run) point(clients int, before []time.Duration, mounts time.Duration) Point {
	p := Point{Operation: r.operation, Global: r.global, Regions: len(r.regions), Clients: clients}
	window, count := (r.end - r.begin).Seconds(), float64(max(len(r.took), 1))
	p.PerSecond, p.Least = float64(len(r.took))/window, float64(slices.Min(r.counts))/window
	sum := time.Duration(0)
	for i, after := range r.busy() {
		busy := after - before[i]
		sum += busy
		p.Busy = max(p.Busy, busy.Seconds()/window/processors)
	}
	p.Servers, p.Mounts = microseconds(sum)/count, microseconds(r.mountBusy()-mounts)/count
	return p
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// open measures the latencies of operations that begin at random moments, at half of a throughput. A mount
// has a client for each operation under way; an operation without a free one waits.
func (c *Config) open(l *load, p *Point) error {
	r, err := c.prepare(l, p.Clients, 0)
	if err != nil {
		return err
	}
	mean := 2 * float64(len(r.mounts)) / p.PerSecond * float64(time.Second)
	for i := range r.mounts {
		first := i * p.Clients
		q := &queue{run: r, mean: mean, free: slices.Clone(r.workers[first : first+p.Clients])}
		r.Schedule(r.Now, q.arrive)
	}
	r.Pass(r.end - r.Now)
	if r.Err != nil {
		return r.Err
	}
	slices.Sort(r.took)
	sum := time.Duration(0)
	for _, t := range r.took {
		sum += t
	}
	if len(r.took) == 0 {
		return fmt.Errorf("no operation ended in %v", c.window(l))
	}
	p.Mean = milliseconds(sum / time.Duration(len(r.took)))
	for percent := range 101 {
		rank := (len(r.took)*percent + 99) / 100 // rounded up
		p.Latencies = append(p.Latencies, milliseconds(r.took[max(rank, 1)-1]))
	}
	p.P50, p.P95 = p.Latencies[50], p.Latencies[95]
	return nil
}

// milliseconds has whole microseconds.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond).Microseconds()) / 1000
}

// queue has the operations of a mount that begin at random moments.
type queue struct {
	*run
	mean    float64 // time between two operations, in nanoseconds
	free    []*worker
	waiting []time.Duration // beginnings
}

func (q *queue) arrive() {
	q.Schedule(q.Now+time.Duration(q.Random.ExpFloat64()*q.mean), q.arrive)
	q.waiting = append(q.waiting, q.Now)
	q.next()
}

func (q *queue) next() {
	if len(q.free) == 0 || len(q.waiting) == 0 {
		return
	}
	last := len(q.free) - 1
	x, began := q.free[last], q.waiting[0]
	q.free, q.waiting = q.free[:last], q.waiting[1:]
	q.one(x, func() {
		q.complete(x, began)
		q.free = append(q.free, x)
		q.next()
	})
}
