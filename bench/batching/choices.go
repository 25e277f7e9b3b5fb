package batching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/internal/driver"
	model "github.com/globalfs/globalfs/pkg/batching"
)

// Choice compares policies of a leader: throughputs in requests/s of replicas of the product's core.
type Choice struct {
	Setting   string  `json:"setting"`
	Request   int     `json:"request_bytes"`
	Natural   float64 `json:"natural"` // a turn proposes all requests that wait
	Driver    float64 `json:"driver"`  // a turn proposes as many as one of the product's driver
	Chosen    float64 `json:"chosen"`  // a turn proposes at most Batch requests
	Batch     int     `json:"chosen_batch"`
	Predicted float64 `json:"predicted"` // throughput of Batch by the model
	Best      float64 `json:"best"`      // of all fixed policies
	Policy    Policy  `json:"best_policy"`
}

// settings returns the settings of the paper, and three replicas with the prices of the product
// (bench/micro): in a LAN, and at round trips between regions over links of 100 Mbit/s. In the last one a
// request costs the leader little: its order alone, without a file system.
func settings() []model.Setting {
	const us = time.Microsecond
	product := func(name string, roundTrip time.Duration, megabits float64, request, frames time.Duration) model.Setting {
		return model.Setting{
			Name: name, Answer: 32, RequestHeader: 32, BatchHeader: 16,
			System: model.System{
				Replicas: 3, Bandwidth: megabits * 1e6 / 8, Delay: roundTrip / 2, WAN: roundTrip > time.Millisecond,
				Client: model.Cost{Fixed: request, PerByte: us}, Replica: model.Cost{Fixed: frames, PerByte: us},
			},
		}
	}
	return []model.Setting{
		model.Cluster(), model.Emulab(),
		product("lan", 500*us, 1000, 200*us, 20*us),
		product("wan-45", 45*time.Millisecond, 100, 200*us, 20*us),
		product("wan-95", 95*time.Millisecond, 100, 200*us, 20*us),
		product("wan-141", 141*time.Millisecond, 100, 200*us, 20*us),
		product("order-lan", 100*us, 1000, 5*us, 15*us),
	}
}

// isProduct reports whether a server of the product has the prices of the setting.
func (c *Choice) isProduct() bool { return c.Setting == "lan" || strings.HasPrefix(c.Setting, "wan-") }

// String names a policy in a table.
func (p Policy) String() string {
	switch {
	case p.Window == 0:
		return fmt.Sprintf("%d in a turn", p.Requests)
	case p.Full:
		return fmt.Sprintf("%d, full, window %d", p.Requests, p.Window)
	}
	return fmt.Sprintf("%d, window %d", p.Requests, p.Window)
}

// Least gives, over all choices, the least throughput as a part of the best fixed policy: of the model's
// batch, of the driver's at the prices of the product, and of the natural policy.
func (r *Report) Least() (chosen, product, natural float64) {
	chosen, product, natural = math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range r.Choices {
		c := &r.Choices[i]
		chosen, natural = min(chosen, c.Chosen/c.Best), min(natural, c.Natural/c.Best)
		if c.isProduct() {
			product = min(product, c.Driver/c.Best)
		}
	}
	return chosen, product, natural
}

// compareChoices measures the policies in all settings, or in two for a quick run.
func (r *Report) compareChoices(ctx context.Context, o Options) error {
	r.Rounds = rounds
	if o.Quick {
		r.Rounds = quickRounds
	}
	for _, s := range settings() {
		for _, request := range requests {
			if o.Quick && (request != 1<<10 || s.Name != "emulab" && s.Name != "wan-141") {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Progress(fmt.Sprintf("policies, %s, requests of %d bytes", s.Name, request))
			c, err := choices(s, request, r.Rounds)
			if err != nil {
				return err
			}
			r.Choices = append(r.Choices, c)
		}
	}
	return nil
}

// rounds and quickRounds are the numbers of requests of each client in a measurement of a policy. Few of
// them favour large batches: the last clump counts as a whole.
const (
	rounds      = 8
	quickRounds = 4
)

// writeChoices writes the table of the policies.
func (r *Report) writeChoices(out io.Writer) error {
	fmt.Fprintf(out, `
Policies of a leader with the core of the product, %d clients in a closed loop, %d requests of each: requests/s. One processor does all work.
natural: a turn proposes all that waits; driver: at most %d requests; chosen: the batch of the model; best: of %d fixed batches and windows.

`, clients, r.Rounds, driver.MostRequests, 4*len(batches))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "setting\trequest\tnatural\tdriver\tchosen\tbatch\tmodel\tbest\tbest policy\tnatural:best\tdriver:best\tchosen:best\t")
	for _, c := range r.Choices {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%d\t%.0f\t%.0f\t%v\t%.2f\t%.2f\t%.2f\t\n", c.Setting, c.Request, c.Natural, c.Driver, c.Chosen, c.Batch,
			c.Predicted, c.Best, c.Policy, c.Natural/c.Best, c.Driver/c.Best, c.Chosen/c.Best)
	}
	return w.Flush()
}

// batches are those of the fixed policies. Each one is tried with four windows.
var batches = []int{1, 8, 32, driver.MostRequests, 512, clients}

// choices measures the policies in a setting. A run measures a number of
// requests of each client.
func choices(s model.Setting, request, rounds int) (Choice, error) {
	w := s.Workload(request)
	c := Choice{Setting: s.Name, Request: request}
	chosen, err := model.ChooseFor(s.System, w, clients)
	if err != nil {
		return c, err
	}
	c.Batch, c.Predicted = chosen.Requests, chosen.Throughput
	run := func(p Policy) float64 {
		x, failure := load{System: s.System, Workload: w, Policy: p, Clients: clients, Rounds: rounds}.throughput()
		err = errors.Join(err, failure)
		return x
	}
	c.Natural = run(Policy{})
	c.Driver = run(Policy{Requests: driver.MostRequests})
	c.Chosen = run(Policy{Requests: c.Batch})
	for _, k := range batches {
		p, _ := model.Predict(s.System, w, k) // its arguments are those of ChooseFor
		for _, fixed := range [...]Policy{{0, k, false}, {p.Window, k, false}, {p.Window, k, true}, {2 * p.Window, k, true}} {
			if x := run(fixed); x > c.Best {
				c.Best, c.Policy = x, fixed
			}
		}
	}
	return c, err
}
