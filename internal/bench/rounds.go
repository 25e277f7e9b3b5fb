package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Cost is what operations of one kind took. A process has all servers and clients: CPU and Written are those
// of all.
type Cost struct {
	Operations int     `json:"operations"`
	PerSecond  float64 `json:"operations_per_second"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	CPU        float64 `json:"cpu_us"`        // of one operation
	Written    float64 `json:"bytes_written"` // to the disk, for one operation
}

// round is one of several times that something was measured.
type round struct {
	latencies []time.Duration
	elapsed   time.Duration
	used      usage
}

func (r *round) perSecond() float64 { return float64(len(r.latencies)) / r.elapsed.Seconds() }

// measureRound has clients repeat their steps, each in a closed loop, for so long; each does one at least.
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
		return round{}, ctx.Err() // and not once for each client
	}
	after, err := used()
	return round{slices.Concat(latencies...), elapsed, after.since(before)}, errors.Join(append(errs, err)...)
}

// cost sums rounds up.
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

// Median of at least one number, which it sorts.
func Median(numbers []float64) float64 {
	slices.Sort(numbers)
	return (numbers[(len(numbers)-1)/2] + numbers[len(numbers)/2]) / 2
}

// rateRatio gives the median, over the rounds, of how much faster ours was than what it is compared with in
// the same round: what else the machine does changes from round to round, and less within one.
func rateRatio(ours, other []round) float64 {
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i].perSecond()/other[i].perSecond())
	}
	return Median(ratios)
}
