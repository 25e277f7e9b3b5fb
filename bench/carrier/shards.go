package carrier

import (
	"context"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Shard is rename or link over two partitions of one region, by one way on one medium.
type Shard struct {
	Medium    string  `json:"medium"`
	Way       string  `json:"way"`
	Operation string  `json:"operation"`
	P50       float64 `json:"p50_us"` // of one client
	P99       float64 `json:"p99_us"`
	CPU       float64 `json:"cpu_us"`            // of all servers for a command of one client
	Frames    float64 `json:"frames"`            // of a command of one client
	Ops       float64 `json:"operations"`        // on the memory of others, of a command of one client
	Rate      float64 `json:"per_second"`        // of many clients
	LoadedP50 float64 `json:"loaded_p50_us"`     // of many clients
	LoadedCPU float64 `json:"loaded_cpu_us"`     // for a command of many clients
	Waited    float64 `json:"waited_us"`         // by a replica of Heron in phase 4 for the last members, on average
	Reads     float64 `json:"reads_per_command"` // of remote memory, by a replica of Heron
}

// The ways to execute a command over two partitions.
const (
	ByFrames = "frames" // PrimCast orders the partitions; the commit's messages are frames
	ByTram   = "tram"   // TRAM orders the partitions; the commit's messages are frames
	ByWrites = "writes" // TRAM orders the partitions; the commit's messages are one-sided writes
	ByHeron  = "heron"  // one order of TRAM for both partitions, with remote reads
)

// medium is a network with one-sided memory.
type medium struct {
	name   string
	inside time.Duration // of a frame
	memory virtual.Memory
}

// media returns a network with RDMA in one room, and the product's provider soft, whose operations are
// messages on streams, in one room and between the datacenters of a region.
func media() []medium {
	prices := virtual.ServerPrices()
	soft := func(delay time.Duration) virtual.Memory {
		return virtual.Memory{LatencyMin: delay, LatencyMax: delay + time.Duration(virtual.Jitter*float64(delay)), Step: prices.Wake, Op: prices.Frame}
	}
	const room = 45 * time.Microsecond
	return []medium{
		{"RDMA, one room", room, virtual.Memory{
			LatencyMin: 700 * time.Nanosecond, LatencyMax: 900 * time.Nanosecond, Bandwidth: 6_000_000_000,
			Step: 300 * time.Nanosecond, Op: 100 * time.Nanosecond,
		}},
		{"streams, one room", room, soft(room)},
		{"streams, three datacenters", virtual.InsideDelay, soft(virtual.InsideDelay)},
	}
}

// shardSettle is the time in which two shards end their work without clients.
const shardSettle = 300 * time.Millisecond

// shardWarmup is the part of ShardWindow before a measurement under load.
const shardWarmup = 0.2

// shards measures all ways on all media.
func (c *Config) shards(ctx context.Context, r *Report) error {
	for _, m := range media() {
		for _, operation := range []string{"link", "rename"} {
			for _, way := range []string{ByFrames, ByTram, ByWrites, ByHeron} {
				c.Progress.Say(fmt.Sprintf("shards: %s by %s, %s", operation, way, m.name))
				s := Shard{Medium: m.name, Way: way, Operation: operation}
				err := c.alone(&m, &s)
				if err == nil {
					err = c.crowd(&m, &s)
				}
				if err = virtual.OrEnded(ctx, err); err != nil {
					return fmt.Errorf("%s by %s, %s: %w", operation, way, m.name, err)
				}
				r.Shards = append(r.Shards, s)
			}
		}
	}
	return nil
}

// twoShards starts a region with two partitions.
func (c *Config) twoShards(m *medium, way string) (*virtual.Cluster, error) {
	prices := virtual.ServerPrices()
	cfg := virtual.Config{
		Carrier: &virtual.Carriers()[0], Regions: c.Regions[:1], Shards: 2, Seed: c.Seed, Prices: &prices, Inside: m.inside,
	}
	if way != ByFrames {
		memory := m.memory
		memory.Links = way == ByWrites
		cfg.Memory, cfg.Tram, cfg.Heron = &memory, way != ByHeron, way == ByHeron
	}
	return virtual.New(cfg)
}

// twins are the partitions of a region with two shards.
const twinA, twinB uint16 = 1, 2

// crosser repeats an operation over both shards with a file of its own.
type crosser struct {
	*virtual.Client
	operation string
	file      posix.Ino
	name      string
	count     int
}

func (c *Config) newCrosser(k *virtual.Cluster, operation string) (*crosser, error) {
	x := &crosser{Client: k.NewClient(c.Regions[0]), operation: operation}
	for _, p := range []uint16{twinA, twinB} {
		if err := x.Open(p); err != nil {
			return nil, err
		}
	}
	x.name = fmt.Sprintf("file%d", x.Session)
	var err error
	x.file, err = x.File(twinA, x.name)
	return x, err
}

// command gives the next command, with the partition that receives it first.
func (x *crosser) command() (meta.Command, []uint16) {
	x.count++
	if x.operation == "link" {
		return virtual.LinkIn(x.file, twinB, fmt.Sprintf("%s.%d", x.name, x.count)), []uint16{twinB, twinA}
	}
	from, to := twinA, twinB
	if x.count%2 == 0 {
		from, to = to, from
	}
	return virtual.Rename(x.file, x.name, from, to), []uint16{from, to}
}

// serverTime returns the CPU time of all servers until now.
func serverTime(k *virtual.Cluster) (sum time.Duration) {
	for _, servers := range k.Servers {
		for _, s := range servers {
			sum += s.Busy()
		}
	}
	return sum
}

// alone measures one command after the other. The work of an idle cluster is not counted.
func (c *Config) alone(m *medium, s *Shard) error {
	k, err := c.twoShards(m, s.Way)
	if err != nil {
		return err
	}
	x, err := c.newCrosser(k, s.Operation)
	if err != nil {
		return err
	}
	type used struct {
		cpu         time.Duration
		frames, ops int
	}
	now := func() used { return used{serverTime(k), k.Traffic.Frames, k.Operations()} }
	k.Pass(shardSettle)
	begin, since := now(), k.Now
	k.Pass(shardSettle)
	idle, quiet := now(), k.Now-since
	since = k.Now
	var all []time.Duration
	for range c.Samples {
		command, parties := x.command()
		a, err := x.Wait(posix.OK, command, parties...)
		if err != nil {
			return err
		}
		all = append(all, a.Took)
		k.Pass(5 * time.Millisecond)
	}
	k.Pass(shardSettle)
	end, part := now(), float64(k.Now-since)/float64(quiet)
	each := func(before, middle, after float64) float64 {
		return max(0, after-middle-part*(middle-before)) / float64(c.Samples)
	}
	s.P50, s.P99 = 1000*percentile(all, 50), 1000*percentile(all, 99)
	s.CPU = each(1e6*seconds(begin.cpu), 1e6*seconds(idle.cpu), 1e6*seconds(end.cpu))
	s.Frames = each(float64(begin.frames), float64(idle.frames), float64(end.frames))
	s.Ops = each(float64(begin.ops), float64(idle.ops), float64(end.ops))
	return c.judge(k, s)
}

// judge verifies the state at the end of a measurement, and the assumption of package heronfs.
func (c *Config) judge(k *virtual.Cluster, s *Shard) error {
	h := k.Readers()
	if h.Lagged > 0 {
		return fmt.Errorf("%d times a replica of Heron was a lagger", h.Lagged)
	}
	if h.Shared > 0 {
		s.Waited = 1e6 * seconds(h.DelayedBy) / float64(h.Shared)
		s.Reads = float64(h.Remote) / float64(h.Shared)
	}
	return k.Verify()
}

// crowd measures many clients in a closed loop.
func (c *Config) crowd(m *medium, s *Shard) error {
	k, err := c.twoShards(m, s.Way)
	if err != nil {
		return err
	}
	begin, end := time.Duration(0), time.Duration(1<<62)
	var all []time.Duration
	for range c.ShardClients {
		x, err := c.newCrosser(k, s.Operation)
		if err != nil {
			return err
		}
		var next func()
		next = func() {
			if k.Now >= end {
				return
			}
			command, parties := x.command()
			x.Update(time.Minute, command, parties, func(a virtual.Answer) {
				switch {
				case a.Unknown || a.Code != posix.OK:
					k.Err = fmt.Errorf("an answer under load: %+v", a)
				case k.Now >= begin && k.Now < end && begin > 0:
					all = append(all, a.Took)
				}
				next()
			})
		}
		k.Schedule(k.Now, next)
	}
	k.Pass(time.Duration(shardWarmup * float64(c.ShardWindow)))
	begin = k.Now
	end = begin + c.ShardWindow
	before := serverTime(k)
	k.Pass(c.ShardWindow)
	cpu := serverTime(k) - before
	k.Pass(shardSettle)
	if k.Err == nil && len(all) == 0 {
		return fmt.Errorf("no command ended in %v", c.ShardWindow)
	}
	s.Rate = float64(len(all)) / c.ShardWindow.Seconds()
	s.LoadedP50 = 1000 * percentile(all, 50)
	s.LoadedCPU = 1e6 * seconds(cpu) / float64(max(len(all), 1))
	return c.judge(k, s)
}

// Of gives the row of an operation by a way on a medium.
func (r *Report) Of(medium, operation, way string) (found Shard) {
	for _, s := range r.Shards {
		if s.Medium == medium && s.Operation == operation && s.Way == way {
			found = s
		}
	}
	return found
}

// Media gives the names of the media of the experiment shards.
func Media() (names []string) {
	for _, m := range media() {
		names = append(names, m.name)
	}
	return names
}
