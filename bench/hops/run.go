package hops

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/bench/memory"
	"github.com/globalfs/globalfs/pkg/fabric"
)

// Config of a run.
type Config struct {
	Program     []string // starts the peer, with the arguments of its memory.Config behind
	Providers   []string
	Spin        time.Duration
	Devices     []string // of the two nodes, for provider verbs; one, or none: the first one of the machine
	Count       int      // of hops, and of completions
	Size        int      // bytes of each write of the throughput
	Outstanding int
	Duration    time.Duration // of the throughput
	Progress    func(what string)
}

// Validate names the field that is wrong.
func (c *Config) Validate() error {
	for _, p := range c.Providers {
		if err := memory.CheckProvider(p); err != nil {
			return err
		}
	}
	switch {
	case c.Count < 1:
		return fmt.Errorf("%d hops: measure at least one", c.Count)
	case c.Size < 1 || c.Size > regionSize:
		return fmt.Errorf("writes of %d bytes: give 1 to %d", c.Size, regionSize)
	case c.Outstanding < 1:
		return fmt.Errorf("%d writes outstanding: give at least one", c.Outstanding)
	case c.Duration <= 0 || c.Spin < 0:
		return fmt.Errorf("duration %v, spin %v: give positive durations", c.Duration, c.Spin)
	}
	return nil
}

// Run measures all providers.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Size: c.Size, Outstanding: c.Outstanding, Spin: c.Spin}
	for _, p := range c.Providers {
		c.Progress(p)
		point, err := c.measure(ctx, p)
		if err != nil {
			return r, fmt.Errorf("provider %s: %w", p, err)
		}
		r.Points = append(r.Points, point)
	}
	return r, nil
}

// measure starts a peer and measures one provider with it.
func (c *Config) measure(ctx context.Context, provider string) (p Point, err error) {
	dir, err := os.MkdirTemp("", "globalfs-fabric-")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := memory.Prepare(dir, 2); err != nil {
		return p, err
	}
	cfg := memory.Config{Dir: dir, Provider: provider, Spin: c.Spin, Self: parent}
	if len(c.Devices) > 0 {
		cfg.Device = c.Devices[len(c.Devices)-1]
	}
	address, stop, err := c.spawn(cfg)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if len(c.Devices) > 0 {
		cfg.Device = c.Devices[0]
	}
	n, m, err := open(cfg, child)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	w := &writer{node: n, memory: m}
	p.Provider = provider
	if p.Hop, err = w.sample(ctx, c.Count, w.hop); err != nil {
		return p, err
	}
	if p.Completion, err = w.sample(ctx, c.Count, w.completion); err != nil {
		return p, err
	}
	if p.WritesPerSecond, err = w.throughput(ctx, c); err != nil {
		return p, err
	}
	p.Echo, err = w.echoes(ctx, c.Count, cfg, address)
	return p, err
}

// spawn starts the peer, which answers to connections at an address. stop ends it.
func (c *Config) spawn(cfg memory.Config) (address string, stop func() error, err error) {
	args := append(slices.Clone(c.Program[1:]), "--dir", cfg.Dir, "--provider", cfg.Provider, "--spin", cfg.Spin.String(), "--device", cfg.Device)
	cmd := exec.Command(c.Program[0], args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the peer has ended: %w", err), stop())
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "ready")), stop, nil
}

// writer measures with an open node.
type writer struct {
	node   *memory.Node
	memory fabric.Memory
	events fabric.Events
	seq    uint64
	data   []byte
}

// sample takes a measurement many times. The first tenth, with the connection in it, does not count.
func (w *writer) sample(ctx context.Context, count int, one func() (time.Duration, error)) (Latency, error) {
	all := make([]time.Duration, 0, count)
	for i := range count + count/10 {
		if err := ctx.Err(); err != nil {
			return Latency{}, err
		}
		d, err := one()
		if err != nil {
			return Latency{}, err
		}
		if i >= count/10 {
			all = append(all, d)
		}
	}
	return latencyOf(all), nil
}

// await polls until something holds.
func (w *writer) await(holds func() bool) error {
	for start := time.Now(); time.Since(start) < patience; {
		w.node.Wait(patience)
		w.events.Reset()
		w.node.Poll(&w.events)
		for _, c := range w.events.Completions {
			if c.Status != fabric.OK {
				return fmt.Errorf("a write ended as %v", c.Status)
			}
		}
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("no progress for %v", patience)
}

func (w *writer) post(region fabric.RegionID) error {
	w.seq++
	w.data = binary.LittleEndian.AppendUint64(nil, w.seq)
	return w.node.Post(fabric.Op{Token: w.seq, Peer: child, Region: region, Data: w.data})
}

// hop is half of a write and its answer. The completion of the write may come in the next call.
func (w *writer) hop() (time.Duration, error) {
	start := time.Now()
	if err := w.post(answered); err != nil {
		return 0, err
	}
	var word [8]byte
	err := w.await(func() bool {
		w.memory.Load(0, word[:])
		return binary.LittleEndian.Uint64(word[:]) == w.seq
	})
	return time.Since(start) / 2, err
}

func (w *writer) completion() (time.Duration, error) {
	start := time.Now()
	if err := w.post(silent); err != nil {
		return 0, err
	}
	err := w.await(func() bool {
		return slices.ContainsFunc(w.events.Completions, func(c fabric.Completion) bool { return c.Token == w.seq })
	})
	return time.Since(start), err
}

// throughput keeps writes outstanding for a time.
func (w *writer) throughput(ctx context.Context, c *Config) (float64, error) {
	data := make([]byte, c.Size)
	slots := regionSize / c.Size
	outstanding, done := 0, 0
	ops := make([]fabric.Op, 0, c.Outstanding)
	start := time.Now()
	for time.Since(start) < c.Duration {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		ops = ops[:0]
		for outstanding < c.Outstanding {
			w.seq++
			outstanding++
			ops = append(ops, fabric.Op{Token: w.seq, Peer: child, Region: silent, At: int(w.seq) % slots * c.Size, Data: data})
		}
		if err := w.node.Post(ops...); err != nil {
			return 0, err
		}
		if err := w.await(func() bool { return len(w.events.Completions) > 0 }); err != nil {
			return 0, err
		}
		outstanding -= len(w.events.Completions)
		done += len(w.events.Completions)
	}
	return float64(done) / time.Since(start).Seconds(), nil
}
