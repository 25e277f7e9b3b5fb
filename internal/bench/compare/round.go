package compare

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// round is the result of one measure in one directory, once.
type round struct {
	latencies []time.Duration
	elapsed   time.Duration // with the barrier
	barrier   time.Duration
	cpu       []time.Duration // by process
	counters  Counters
}

func (r *round) perSecond() float64 { return float64(len(r.latencies)) / r.elapsed.Seconds() }

// measure runs a measure once.
func (s *site) measure(m *measure) (*round, error) {
	if m.prepare != nil {
		if err := m.prepare(s); err != nil {
			return nil, s.explain(m, err)
		}
	}
	s.cfg.Settle()
	before, err := s.place.usage(s.ctx)
	if err != nil {
		return nil, err
	}
	taking := s.taking(m)
	latencies := make([][]time.Duration, len(taking))
	start := time.Now()
	err = together(taking, func(i int, w *worker) error { return s.repeat(m, w, start, &latencies[i]) })
	worked := time.Since(start)
	if err == nil {
		err = s.barrier(m)
	}
	elapsed := time.Since(start)
	if err = errors.Join(s.ctx.Err(), err); err != nil {
		return nil, s.explain(m, err)
	}
	after, err := s.place.usage(s.ctx)
	if err != nil {
		return nil, err
	}
	r := &round{latencies: slices.Concat(latencies...), elapsed: elapsed, barrier: elapsed - worked, counters: after.counters.since(before.counters)}
	for i := range after.cpu {
		r.cpu = append(r.cpu, after.cpu[i]-before.cpu[i])
	}
	return r, nil
}

// repeat does the steps of one client until all are done, the limit has passed or the context ends.
func (s *site) repeat(m *measure, w *worker, start time.Time, latencies *[]time.Duration) error {
	count := m.count(s, w)
	*latencies = make([]time.Duration, 0, count)
	last := start
	for n := 0; n < count && s.ctx.Err() == nil && last.Sub(start) < s.cfg.Limit; n++ {
		if err := m.step(s, w, n); err != nil {
			return err
		}
		now := time.Now()
		took := now.Sub(last)
		if m.needs == needsSecond {
			took = w.took
		}
		*latencies = append(*latencies, took)
		last = now
	}
	return nil
}

// explain names the measure, and the remedy of errors that have one.
func (s *site) explain(m *measure, err error) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	advice := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		advice = ": make room, or lower --size and --files"
	case errors.Is(err, syscall.EDQUOT):
		advice = ": raise the quota, or lower --size and --files"
	case errors.Is(err, syscall.EROFS):
		advice = ": give a directory that can be written"
	}
	return fmt.Errorf("%s in %s: %w%s", m.name, s.place.Name, err, advice)
}
