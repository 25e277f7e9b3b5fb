package micro

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/driver"
)

// Step is creations with a bound on the requests that a step of a replica takes.
type Step struct {
	Regions int     `json:"regions"` // 1: local creations; more: in the global partition
	Clients int     `json:"clients"` // of each mount
	Batch   int     `json:"batch"`   // 0: all requests that are there
	Rate    float64 `json:"per_second"`
}

// batches are the bounds of Steps.
var batches = []int{0, 1, 8, 32, driver.MostRequests}

// Steps measures creations in one region, and in the partition of three regions, with each bound: means of
// runs with several seeds.
func (c Config) Steps(ctx context.Context, clients []int, seeds uint64) (all []Step, err error) {
	for _, l := range []load{{regions: c.Regions[:1]}, {regions: c.Regions[:baseline], global: 1}} {
		l.operation = Create
		for _, n := range clients {
			for _, l.batch = range batches {
				c.Progress.Say(fmt.Sprintf("%v, %d clients at each mount, %d requests in a step", &l, n, l.batch))
				s := Step{Regions: len(l.regions), Clients: n, Batch: l.batch}
				for c.Seed = range seeds {
					p, err := c.closed(&l, n, 0)
					if err = virtual.OrEnded(ctx, err); err != nil {
						return all, fmt.Errorf("%v: %w", &l, err)
					}
					s.Rate += p.PerSecond / float64(seeds)
				}
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// Least returns the least rate with a bound, as a part of the best rate with any bound.
func Least(all []Step, batch int) float64 {
	least := 1.0
	for _, s := range all {
		for _, other := range all {
			if s.Batch == batch && other.Regions == s.Regions && other.Clients == s.Clients {
				least = min(least, s.Rate/other.Rate)
			}
		}
	}
	return least
}
