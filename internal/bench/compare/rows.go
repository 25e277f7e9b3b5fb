package compare

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
)

// Row is the result of one measure in one directory, over all rounds. Latencies do not include the barrier,
// which PerSecond does.
type Row struct {
	Measure    string  `json:"measure"`
	Clients    int     `json:"clients"`
	Directory  string  `json:"directory"`
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`         // over all rounds, with the barriers
	Barrier    float64 `json:"barrier_seconds"` // over all rounds
	PerSecond  float64 `json:"operations_per_second"`
	Ratio      float64 `json:"ratio"` // of the rates, to the first directory: the median over the rounds; 0: that has none
	P50        float64 `json:"p50_us"`
	P90        float64 `json:"p90_us"`
	P99        float64 `json:"p99_us"`
	Max        float64 `json:"max_us"`
	CPU        []CPU   `json:"cpu,omitempty"` // of one operation, by process
	PerOperation
}

// CPU is the time that one operation costs a process.
type CPU struct {
	Process
	Microseconds float64 `json:"us"`
}

// PerOperation is the work of a mount for one operation; nil: not known.
type PerOperation struct {
	Requests *float64 `json:"requests,omitempty"` // of the kernel
	Queries  *float64 `json:"queries,omitempty"`  // calls that read metadata
	Commands *float64 `json:"commands,omitempty"` // calls that order a command
}

// TotalCPU returns the CPU time of one operation over all processes, in microseconds.
func (r *Row) TotalCPU() (us float64) {
	for _, c := range r.CPU {
		us += c.Microseconds
	}
	return us
}

// rows sums the rounds up.
func (r *run) rows() (rows []Row) {
	for _, m := range r.chosen {
		for _, clients := range r.clientsOf(m) {
			for i := range r.places {
				if rounds := r.rounds[key{m.name, clients, i}]; len(rounds) > 0 {
					rows = append(rows, r.row(m, clients, i, rounds))
				}
			}
		}
	}
	return rows
}

func (r *run) clientsOf(m *measure) []int {
	if m.program {
		return []int{1}
	}
	return r.cfg.Clients
}

func (r *run) row(m *measure, clients, place int, rounds []*round) Row {
	var all round
	all.cpu = make([]time.Duration, len(r.places[place].Processes))
	for _, one := range rounds {
		all.latencies = append(all.latencies, one.latencies...)
		all.elapsed += one.elapsed
		all.barrier += one.barrier
		all.counters = all.counters.plus(one.counters)
		for i := range one.cpu {
			all.cpu[i] += one.cpu[i]
		}
	}
	d := r.places[place].Directory
	row := Row{
		Measure: m.name, Clients: clients, Directory: d.Name, Operations: len(all.latencies), Seconds: all.elapsed.Seconds(),
		Barrier: all.barrier.Seconds(), Ratio: ratio(rounds, r.rounds[key{m.name, clients, 0}]),
	}
	n := float64(row.Operations)
	if n == 0 {
		return row
	}
	row.PerSecond = all.perSecond()
	slices.Sort(all.latencies)
	row.P50, row.P90, row.P99, row.Max = percentile(all.latencies, 50), percentile(all.latencies, 90), percentile(all.latencies, 99), percentile(all.latencies, 100)
	for i, p := range d.Processes {
		row.CPU = append(row.CPU, CPU{p, microseconds(all.cpu[i]) / n})
	}
	if d.Counters != nil {
		row.PerOperation = PerOperation{new(float64(all.counters.Requests) / n), new(float64(all.counters.Queries) / n), new(float64(all.counters.Commands) / n)}
	}
	return row
}

// ratio is the median, over the rounds, of the ratio of the rates in one round.
func ratio(rounds, first []*round) float64 {
	var ratios []float64
	for i := range min(len(rounds), len(first)) {
		if first[i].perSecond() > 0 {
			ratios = append(ratios, rounds[i].perSecond()/first[i].perSecond())
		}
	}
	if len(ratios) == 0 {
		return 0
	}
	return bench.Median(ratios)
}

// percentile of sorted durations, in microseconds.
func percentile(sorted []time.Duration, p int) float64 {
	return microseconds(sorted[(len(sorted)-1)*p/100])
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
