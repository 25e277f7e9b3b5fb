// Package bench implements the benchmarks of `globalfs bench`. Micro is the thesis' microbenchmark (T 3.6.1):
// read 1 KB, write 1 KB, create (with several clients also in a directory for each), and create with 1 KB, in
// the local and in the global partition. It runs in a closed loop: each client starts an operation when its
// last one has ended.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// chunk is the size of the thesis' reads and writes, fileSize the size of the file that is read repeatedly (T
// 3.6.1).
const (
	chunk    = 1 << 10
	fileSize = 10 << 10
)

// Target is the working directory of the benchmark, through a mount or directly through the client library.
// Its methods are called concurrently; each client uses its own names.
type Target interface {
	// Create makes an empty file.
	Create(ctx context.Context, name string) error
	// Open opens a file, and makes it if it does not exist.
	Open(ctx context.Context, name string) (File, error)
	// Mkdir makes a directory to work in.
	Mkdir(ctx context.Context, name string) (Target, error)
}

// File is an open file. Only one client at a time uses it.
type File interface {
	ReadAt(ctx context.Context, into []byte, offset int64) error
	WriteAt(ctx context.Context, data []byte, offset int64) error
	Close(ctx context.Context) error
}

// Config of a run.
type Config struct {
	Clients  int           // in each measurement
	Duration time.Duration // of each measurement
	Places   []Place
	Progress func(string) // called with the name of each measurement
}

// Place is a partition to measure.
type Place struct {
	Name   string // "local" or "global"
	Target Target
}

// Measurement is one row of the result. Latencies are in microseconds.
type Measurement struct {
	Operation  string  `json:"operation"`
	Place      string  `json:"place"`
	Clients    int     `json:"clients"`
	Operations int     `json:"operations"`
	PerSecond  float64 `json:"operations_per_second"`
	P50        float64 `json:"p50_us"`
	P95        float64 `json:"p95_us"`
	P99        float64 `json:"p99_us"`
	Max        float64 `json:"max_us"`
}

// operation is one kind of operation. Its prepare returns the step that the client repeats, and the end of
// the client.
type operation struct {
	name    string
	prepare func(ctx context.Context, t Target, prefix string) (step func(n int) error, done func() error, err error)
}

var operations = []operation{
	{"read 1 KB", prepareRead},
	{"write 1 KB", prepareWrite},
	{"create", prepareCreate},
	{apart, prepareCreateApart},
	{"create 1 KB", prepareCreateWrite},
}

// apart is the operation with a separate directory for each client. The kernel makes only one file at a time
// in a directory of a mount.
const apart = "create apart"

func nothing() error { return nil }

func prepareRead(ctx context.Context, t Target, prefix string) (func(int) error, func() error, error) {
	f, err := t.Open(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	if err := f.WriteAt(ctx, make([]byte, fileSize), 0); err != nil {
		return nil, nil, err
	}
	buffer := make([]byte, chunk)
	step := func(n int) error { return f.ReadAt(ctx, buffer, int64(n%(fileSize/chunk))*chunk) }
	return step, func() error { return f.Close(ctx) }, nil
}

func prepareWrite(ctx context.Context, t Target, prefix string) (func(int) error, func() error, error) {
	f, err := t.Open(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	data := make([]byte, chunk)
	step := func(n int) error { return f.WriteAt(ctx, data, int64(n)*chunk) }
	return step, func() error { return f.Close(ctx) }, nil
}

func prepareCreate(ctx context.Context, t Target, prefix string) (func(int) error, func() error, error) {
	return func(n int) error { return t.Create(ctx, fmt.Sprintf("%s-%d", prefix, n)) }, nothing, nil
}

func prepareCreateApart(ctx context.Context, t Target, prefix string) (func(int) error, func() error, error) {
	own, err := t.Mkdir(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	return prepareCreate(ctx, own, prefix)
}

func prepareCreateWrite(ctx context.Context, t Target, prefix string) (func(int) error, func() error, error) {
	data := make([]byte, chunk)
	step := func(n int) error {
		f, err := t.Open(ctx, fmt.Sprintf("%s-%d", prefix, n))
		if err != nil {
			return err
		}
		return errors.Join(f.WriteAt(ctx, data, 0), f.Close(ctx))
	}
	return step, nothing, nil
}

// Micro measures every operation at every place, one after the other.
func Micro(ctx context.Context, cfg Config) ([]Measurement, error) {
	var rows []Measurement
	for i, op := range Operations(cfg.Clients) {
		for _, place := range cfg.Places {
			cfg.Progress(fmt.Sprintf("%s, %s: %d clients for %v", op, place.Name, cfg.Clients, cfg.Duration))
			load := Load{Operation: op, Clients: cfg.Clients, Duration: cfg.Duration, Prefix: fmt.Sprintf("bench-%d", i)}
			sample, err := load.Run(ctx, place.Target)
			if err != nil {
				return rows, fmt.Errorf("%s, %s: %w", op, place.Name, err)
			}
			rows = append(rows, Summarize(op, place.Name, cfg.Clients, sample))
		}
	}
	return rows, nil
}

// Operations lists the operations that Micro measures with this number of clients.
func Operations(clients int) (names []string) {
	for _, op := range operations {
		if op.name != apart || clients > 1 {
			names = append(names, op.name)
		}
	}
	return names
}

// Load is one of Micro's operations, repeated by clients.
type Load struct {
	Operation string // one of Operations
	Clients   int
	Duration  time.Duration
	Prefix    string       // of the names of files, which must be new
	Begin     func() error // called when all clients are prepared; they start after it. nil: nothing
}

// Sample is the result of the clients.
type Sample struct {
	Latencies []time.Duration `json:"latencies_ns"`
	Elapsed   time.Duration   `json:"elapsed_ns"`
}

// Run runs the clients in a directory. The time to prepare them does not count.
func (l *Load) Run(ctx context.Context, target Target) (Sample, error) {
	i := slices.IndexFunc(operations, func(op operation) bool { return op.name == l.Operation })
	if i < 0 {
		return Sample{}, fmt.Errorf("operation %q: give one of %q", l.Operation, Operations(l.Clients))
	}
	steps, ends, err := l.prepare(ctx, operations[i], target)
	if err == nil && l.Begin != nil {
		err = l.Begin()
	}
	if err != nil {
		return Sample{}, errors.Join(err, endAll(ends))
	}
	all, errs := make([][]time.Duration, l.Clients), make([]error, l.Clients)
	var running sync.WaitGroup
	start := time.Now()
	for c := range l.Clients {
		running.Go(func() { all[c], errs[c] = repeat(ctx, steps[c], l.Duration) })
	}
	running.Wait()
	sample := Sample{slices.Concat(all...), time.Since(start)}
	return sample, errors.Join(append(errs, endAll(ends), ctx.Err())...)
}

// prepare prepares all clients at once.
func (l *Load) prepare(ctx context.Context, op operation, target Target) (steps []func(int) error, ends []func() error, err error) {
	steps, ends = make([]func(int) error, l.Clients), make([]func() error, l.Clients)
	errs := make([]error, l.Clients)
	var running sync.WaitGroup
	for c := range l.Clients {
		running.Go(func() { steps[c], ends[c], errs[c] = op.prepare(ctx, target, fmt.Sprintf("%s-%d", l.Prefix, c)) })
	}
	running.Wait()
	return steps, ends, errors.Join(errs...)
}

// endAll ends the clients, except those with a failed preparation.
func endAll(ends []func() error) error {
	var errs []error
	for _, end := range ends {
		if end != nil {
			errs = append(errs, end())
		}
	}
	return errors.Join(errs...)
}

// repeat runs step until duration has passed, at least once, and returns the latency of each run.
func repeat(ctx context.Context, step func(int) error, duration time.Duration) ([]time.Duration, error) {
	var latencies []time.Duration
	end := time.Now().Add(duration)
	for n := 0; ctx.Err() == nil; n++ {
		start := time.Now()
		if n > 0 && start.After(end) {
			break
		}
		if err := step(n); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(start))
	}
	return latencies, nil
}

// Summarize makes a row of one or several samples.
func Summarize(op, place string, clients int, samples ...Sample) Measurement {
	latencies := Latencies(samples...)
	var elapsed time.Duration
	for _, s := range samples {
		elapsed += s.Elapsed
	}
	m := Measurement{Operation: op, Place: place, Clients: clients, Operations: len(latencies)}
	if len(latencies) == 0 {
		return m
	}
	at := func(q float64) float64 { return microseconds(latencies[int(q*float64(len(latencies)-1))]) }
	m.PerSecond = float64(len(latencies)) / elapsed.Seconds()
	m.P50, m.P95, m.P99, m.Max = at(0.5), at(0.95), at(0.99), at(1)
	return m
}

// Latencies returns the latencies of all samples, in ascending order.
func Latencies(samples ...Sample) (all []time.Duration) {
	for _, s := range samples {
		all = append(all, s.Latencies...)
	}
	slices.Sort(all)
	return all
}
