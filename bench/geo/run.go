package geo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/wan"
)

// Row is one operation in one setting.
type Row struct {
	Setting string          `json:"setting"`
	Region  topology.Region `json:"region"` // of the mount
	bench.Measurement
	// CPU is the CPU time of one operation in microseconds, by part: all (the embedded cluster), or mount,
	// near and far (servers), and etcd.
	CPU map[string]float64 `json:"cpu_us"`
	// Latency and Rate are ratios to the embedded cluster, of the median latency and of operations a second:
	// medians over the rounds. 0: it was not measured.
	Latency float64 `json:"latency_ratio,omitempty"`
	Rate    float64 `json:"rate_ratio,omitempty"`

	samples []bench.Sample // one per round
}

// Report is the result of the measurements.
type Report struct {
	Datacenters int               `json:"datacenters"`
	Rows        []*Row            `json:"rows"`
	Costs       []*Cost           `json:"costs,omitempty"`
	Skipped     map[string]string `json:"skipped,omitempty"` // settings, with reasons
	// Late bounds the lateness of the laboratory's packets in 99 of 100 cases, in microseconds, up to a
	// factor of two.
	Late float64 `json:"lab_late_p99_us,omitempty"`
}

// Run starts all settings and measures them. It leaves nothing of them behind.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if slices.Contains(cfg.Settings, Lab) {
		// Computation between measurements must not delay packets: with more threads Linux schedules them,
		// not Go's scheduler (see package wan).
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * runtime.NumCPU()))
	}
	report = &Report{Datacenters: cfg.Datacenters, Skipped: map[string]string{}}
	var stages []*stage
	defer func() { err = errors.Join(err, closeAll(stages)) }()
	for _, name := range Settings() {
		if !slices.Contains(cfg.Settings, name) {
			continue
		}
		cfg.Progress("start " + name)
		s, err := cfg.start(ctx, name)
		if errors.Is(err, wan.ErrUnavailable) {
			cfg.Progress(fmt.Sprintf("not measured: %s: %v", name, err))
			report.Skipped[name] = err.Error()
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		stages = append(stages, s)
	}
	if report.Rows, err = cfg.measureAll(ctx, stages); err != nil {
		return nil, err
	}
	if report.Costs, err = cfg.profileAll(ctx, stages); err != nil {
		return nil, err
	}
	for _, s := range stages {
		if s.lab != nil {
			stats := s.lab.Stats()
			report.Late = microseconds(stats.Late(0.99))
		}
	}
	return report, nil
}

// closeAll ends all settings at the same time.
func closeAll(stages []*stage) error {
	errs := make([]error, len(stages))
	var closing sync.WaitGroup
	for i, s := range stages {
		closing.Go(func() { errs[i] = s.close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// measureAll measures every operation in all settings.
func (c *Config) measureAll(ctx context.Context, stages []*stage) (rows []*Row, err error) {
	for _, operation := range bench.Operations(slices.Max(c.Clients)) {
		for _, place := range []string{local, global} {
			for _, clients := range c.Clients {
				if !slices.Contains(bench.Operations(clients), operation) {
					continue
				}
				point := Load{Operation: operation, Clients: clients, Duration: c.Duration}
				more, err := c.measurePoint(ctx, stages, point, place)
				if err != nil {
					return nil, err
				}
				rows = append(rows, more...)
			}
		}
	}
	return rows, nil
}

// measurePoint measures one operation in all settings, which take turns.
func (c *Config) measurePoint(ctx context.Context, stages []*stage, load Load, place string) (rows []*Row, err error) {
	used := map[*Row]map[string]time.Duration{}
	for round := range c.Rounds {
		i := 0
		for _, s := range stages {
			for _, p := range s.posts {
				if round == 0 {
					row := &Row{Setting: s.name, Region: p.region}
					used[row] = map[string]time.Duration{}
					rows = append(rows, row)
				}
				c.Progress(fmt.Sprintf("%s, %s, %d clients (%d of %d): %s", load.Operation, place, load.Clients, round+1, c.Rounds, s.where(p)))
				load.Dir, load.Prefix = p.dirs[place], fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(load.Operation, " ", "-"), load.Clients, round)
				sample, cpu, err := c.measure(ctx, s, p, load)
				if err != nil {
					return nil, fmt.Errorf("%s, %s, %d clients, %s: %w", load.Operation, place, load.Clients, s.where(p), err)
				}
				rows[i].samples = append(rows[i].samples, sample)
				for part, t := range cpu {
					used[rows[i]][part] += t
				}
				i++
			}
		}
	}
	for _, row := range rows {
		row.finish(load, place, used[row])
		if first := rows[0].Setting; first == Embedded || first == Loopback {
			row.compare(rows[0])
		}
	}
	return rows, nil
}

// finish sums up the rounds.
func (r *Row) finish(load Load, place string, used map[string]time.Duration) {
	r.Measurement = bench.Summarize(load.Operation, place, load.Clients, r.samples...)
	r.CPU = map[string]float64{}
	for part, t := range used {
		r.CPU[part] = microseconds(t) / float64(r.Operations)
	}
}

// compare computes the ratios to another row.
func (r *Row) compare(other *Row) {
	var latencies, rates []float64
	for i := range r.samples {
		mine := bench.Summarize(r.Operation, r.Place, r.Clients, r.samples[i])
		theirs := bench.Summarize(r.Operation, r.Place, r.Clients, other.samples[i])
		latencies, rates = append(latencies, mine.P50/theirs.P50), append(rates, mine.PerSecond/theirs.PerSecond)
	}
	r.Latency, r.Rate = bench.Median(latencies), bench.Median(rates)
}

// measure runs one load, and returns its CPU time by part.
func (c *Config) measure(ctx context.Context, s *stage, p *post, load Load) (bench.Sample, map[string]time.Duration, error) {
	parts := s.parts(p)
	var before, after map[string]time.Duration
	sample, err := load.run(ctx, c.Loader,
		func() (err error) { before, err = usedBy(parts); return err },
		func() (err error) { after, err = usedBy(parts); return err },
	)
	if err != nil {
		return sample, nil, err
	}
	for part := range after {
		after[part] -= before[part]
	}
	return sample, after, nil
}

// usedBy sums up the CPU time of processes so far.
func usedBy(parts map[string][]*cluster.Process) (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		for _, p := range parts[part] {
			t, err := bench.ProcessTime(p.PID())
			if errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("%s has ended; it said:\n%s", p.Name, cluster.Tail(p.Log, 2000))
			}
			if err != nil {
				return nil, err
			}
			used[part] += t
		}
	}
	return used, nil
}
