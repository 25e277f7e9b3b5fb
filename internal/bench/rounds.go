package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Cost is the cost of operations of one kind. CPU and Written include all servers and clients, because they
// run in one process.
type Cost struct {
	Operations int     `json:"operations"`
	PerSecond  float64 `json:"operations_per_second"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	CPU        float64 `json:"cpu_us"`        // of one operation
	Written    float64 `json:"bytes_written"` // to the disk, for one operation
}

// round is the result of one round of a measurement.
type round struct {
	latencies []time.Duration
	elapsed   time.Duration
	used      usage
}

func (r *round) perSecond() float64 { return float64(len(r.latencies)) / r.elapsed.Seconds() }

// measureRound runs clients that repeat their steps, each in a closed loop, for duration. Each client runs at
// least one step.
func measureRound(ctx context.Context, clients int, duration time.Duration, step func(client, n int) error) (round, error) {
	before, err := used()
	if err != nil {
		return round{}, err
	}
	latencies, errs := make([][]time.Duration, clients), make([]error, clients)
	var running sync.WaitGroup
	start := time.Now()
	for c := range clients {
		running.Go(func() {
			latencies[c], errs[c] = repeat(ctx, func(n int) error { return step(c, n) }, duration)
		})
	}
	running.Wait()
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return round{}, ctx.Err() // one error instead of one for each client
	}
	after, err := used()
	return round{slices.Concat(latencies...), elapsed, after.since(before)}, errors.Join(append(errs, err)...)
}

// cost sums up rounds.
func cost(rounds []round) Cost {
	var all round
	for _, r := range rounds {
		all.latencies = append(all.latencies, r.latencies...)
		all.elapsed += r.elapsed
		all.used = all.used.plus(r.used)
	}
	c := Cost{Operations: len(all.latencies)}
	if c.Operations == 0 {
		return c
	}
	n := float64(c.Operations)
	c.PerSecond = all.perSecond()
	c.P50, c.P99 = microseconds(percentile(all.latencies, 0.5)), microseconds(percentile(all.latencies, 0.99))
	c.CPU, c.Written = microseconds(all.used.cpu)/n, float64(all.used.written)/n
	return c
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Median returns the median of at least one number, and sorts the numbers.
func Median(numbers []float64) float64 {
	slices.Sort(numbers)
	return (numbers[(len(numbers)-1)/2] + numbers[len(numbers)/2]) / 2
}

// rateRatio returns the median over the rounds of the ratio of our rate to the other one of the same round.
// Other load of the machine changes between rounds, and less within one.
func rateRatio(ours, other []round) float64 {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i].perSecond()/other[i].perSecond())
	}
	return Median(ratios)
}
