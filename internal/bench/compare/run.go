package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// place is a directory with its working directory.
type place struct {
	*Directory
	work string
}

// run has the state of one comparison: the configuration, the chosen measures, the places and the rounds so
// far.
type run struct {
	cfg     Config
	chosen  []*measure
	places  []*place
	archive archive
	rounds  map[key][]*round
}

// key names a series of rounds.
type key struct {
	measure string
	clients int
	place   int
}

// Run measures, and gives a row for each measure, number of clients and directory. Nothing is left of its
// work, also after an error and after the end of ctx.
func Run(ctx context.Context, cfg Config) (_ []Row, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Settle == nil {
		cfg.Settle = unix.Sync
	}
	r := &run{cfg: cfg, rounds: map[key][]*round{}}
	names := cfg.Measures
	if len(names) == 0 {
		names = cfg.DefaultMeasures()
	}
	for i := range measures {
		if slices.Contains(names, measures[i].name) {
			r.chosen = append(r.chosen, &measures[i])
		}
	}
	defer func() {
		for _, p := range r.places {
			if failed := removeAll(p.work); failed != nil {
				err = errors.Join(err, fmt.Errorf("the working directory is left: %w: remove it", failed))
			}
		}
	}()
	for i := range cfg.Directories {
		d := &cfg.Directories[i]
		work, err := os.MkdirTemp(d.Path, "globalfs-bench-")
		if err != nil {
			return nil, fmt.Errorf("%w: give a directory in which this user may make files", err)
		}
		r.places = append(r.places, &place{d, work})
	}
	for n := range cfg.Rounds {
		for _, clients := range cfg.Clients {
			if err := r.round(ctx, n, clients); err != nil {
				return nil, err
			}
		}
	}
	return r.rows(), nil
}

// round runs all measures with one number of clients. The first directory of a round is another one each
// time.
func (r *run) round(ctx context.Context, n, clients int) (err error) {
	sites := make([]*site, len(r.places))
	defer func() {
		for _, s := range sites {
			if s != nil {
				err = errors.Join(err, s.remove())
			}
		}
	}()
	for i, p := range r.places {
		if sites[i], err = newSite(ctx, &r.cfg, p, clients, &r.archive); err != nil {
			return err
		}
	}
	for _, m := range r.chosen {
		if m.program && clients != slices.Min(r.cfg.Clients) {
			continue
		}
		for i := range sites {
			s := sites[(i+n)%len(sites)]
			if m.needs == needsSecond && s.place.Second == "" {
				continue
			}
			r.cfg.Progress(fmt.Sprintf("round %d of %d, %d clients, %s, %s", n+1, r.cfg.Rounds, clients, m.name, s.place.Name))
			if err := r.one(s, m, (i+n)%len(sites)); err != nil {
				return err
			}
		}
	}
	return nil
}

// one runs a measure in one directory and keeps the result.
func (r *run) one(s *site, m *measure, place int) error {
	result, err := s.measure(m)
	if err != nil {
		return err
	}
	k := key{m.name, len(s.taking(m)), place}
	r.rounds[k] = append(r.rounds[k], result)
	return nil
}
