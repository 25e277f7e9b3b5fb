package geo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/test/cluster"
)

// profiled is the ratio of the time of a profile to that of a measurement: a profile has one sample per 10 ms
// of CPU.
const profiled = 4

// created is the profiled operation of one client. Several clients have a directory each; otherwise they
// would wait for each other in the kernel.
const (
	created      = "create"
	createdApart = "create apart"
)

// Cost is the cost of one create for a process, in microseconds of CPU.
type Cost struct {
	Setting string             `json:"setting"`
	Place   string             `json:"place"`
	Clients int                `json:"clients"`
	Creates int                `json:"creates"` // during the profile
	P50     float64            `json:"p50_us"`  // of their latency
	Process string             `json:"process"`
	CPU     float64            `json:"cpu_us"`
	Areas   map[string]float64 `json:"areas_us"` // of CPU, see Areas
}

// profileAll profiles creates in all settings, by the mount in the first region.
func (c *Config) profileAll(ctx context.Context, stages []*stage) (costs []*Cost, err error) {
	if c.Profile == "" {
		return nil, nil
	}
	if err := os.MkdirAll(c.Profile, 0o755); err != nil {
		return nil, err
	}
	for _, s := range stages {
		for _, place := range []string{local, global} {
			for _, clients := range c.Clients {
				c.Progress(fmt.Sprintf("profile: create, %s, %d clients: %s", place, clients, s.where(s.posts[0])))
				load := Load{
					Dir: s.posts[0].dirs[place], Operation: created, Prefix: fmt.Sprintf("profile-%d", clients), Clients: clients,
					Duration: profiled * c.Duration * time.Duration(c.Rounds),
				}
				if clients > 1 {
					load.Operation = createdApart
				}
				more, err := c.profile(ctx, s, load, place)
				if err != nil {
					return nil, fmt.Errorf("profile of %s, %s, %d clients: %w", s.name, place, clients, err)
				}
				costs = append(costs, more...)
			}
		}
	}
	return costs, nil
}

// profile profiles all processes of a setting during one load.
func (c *Config) profile(ctx context.Context, s *stage, load Load, place string) ([]*Cost, error) {
	processes := []*cluster.Process{s.posts[0].mount.Process}
	for _, p := range s.servers {
		if p.Name != "etcd" { // etcd is idle then
			processes = append(processes, p)
		}
	}
	parts := map[string][]*cluster.Process{}
	for _, p := range processes {
		parts[p.Name] = []*cluster.Process{p}
	}
	profiles, errs := make([]bytes.Buffer, len(processes)), make([]error, len(processes))
	var before, after map[string]time.Duration
	var taking sync.WaitGroup
	sample, err := load.run(ctx, c.Loader, func() (err error) {
		if before, err = usedBy(parts); err != nil {
			return err
		}
		for i, p := range processes {
			taking.Go(func() { errs[i] = p.Profile(ctx, load.Duration, &profiles[i]) })
		}
		return nil
	}, func() (err error) { after, err = usedBy(parts); return err })
	taking.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	row := bench.Summarize(load.Operation, place, load.Clients, sample)
	var costs []*Cost
	for i, p := range processes {
		used := microseconds(after[p.Name]-before[p.Name]) / float64(row.Operations)
		cost := &Cost{Setting: s.name, Place: place, Clients: load.Clients, Creates: row.Operations, P50: row.P50, Process: p.Name, CPU: used}
		if cost.Areas, err = areasOf(profiles[i].Bytes(), used); err != nil {
			return nil, fmt.Errorf("profile of %s: %w", p.Name, err)
		}
		name := strings.ReplaceAll(fmt.Sprintf("%s-%s-%d-%s.pprof", s.name, place, load.Clients, p.Name), " ", "-")
		if err := os.WriteFile(filepath.Join(c.Profile, name), profiles[i].Bytes(), 0o644); err != nil {
			return nil, err
		}
		costs = append(costs, cost)
	}
	return costs, nil
}

// sum returns the sum of costs over all processes.
func sum(costs []*Cost) *Cost {
	total := *costs[0]
	total.Process, total.CPU, total.Areas = "all", 0, map[string]float64{}
	for _, c := range costs {
		total.CPU += c.CPU
		for area, us := range c.Areas {
			total.Areas[area] += us
		}
	}
	return &total
}

// groups returns the costs of each profile.
func groups(costs []*Cost) (all [][]*Cost) {
	for len(costs) > 0 {
		first := costs[0]
		n := slices.IndexFunc(costs, func(c *Cost) bool {
			return c.Setting != first.Setting || c.Place != first.Place || c.Clients != first.Clients
		})
		if n < 0 {
			n = len(costs)
		}
		all, costs = append(all, costs[:n]), costs[n:]
	}
	return all
}
