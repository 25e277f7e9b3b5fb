package mover

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Config of a Mover. Zero values take the defaults.
type Config struct {
	Client *client.Client
	// Mine reports whether this mover works on the tasks of a partition. One mover must; several do no harm.
	// Nil: it works on all tasks.
	Mine      func(partition uint16) bool
	Interval  time.Duration // between queries for new tasks
	PerSecond int           // inodes moved, at most
	Parallel  int           // inodes of one task that are moved at a time
	Tasks     int           // worked on at a time
	Logger    *slog.Logger  // nil: slog.Default()
}

// Defaults of Config.
const (
	DefaultInterval  = 5 * time.Second
	DefaultPerSecond = 2000
	DefaultParallel  = 16
	DefaultTasks     = 4
)

// maxCopying bounds the files with copies of blocks under way: each takes some MiB of memory.
const maxCopying = 4

// Validate returns an error with the wrong field and the remedy.
func (cfg *Config) Validate() error {
	switch {
	case cfg.Client == nil:
		return fmt.Errorf("mover: no client: set Client")
	case cfg.Interval < 0:
		return fmt.Errorf("mover: interval %v: give a positive duration, or 0 for %v", cfg.Interval, DefaultInterval)
	case cfg.PerSecond < 0 || cfg.Parallel < 0 || cfg.Tasks < 0:
		return fmt.Errorf("mover: %d inodes a second, %d in parallel, %d tasks: give positive numbers, or 0 for the defaults", cfg.PerSecond, cfg.Parallel, cfg.Tasks)
	}
	return nil
}

// Mover works on the tasks of all partitions.
type Mover struct {
	cfg     Config
	slots   chan struct{} // holds one token for each task that is worked on
	copying chan struct{} // holds one token for each file with copies of blocks under way
	pace    pace

	mu      sync.Mutex
	working map[taskID]bool // GUARDED_BY mu
	running sync.WaitGroup
}

// taskID identifies a task.
type taskID struct {
	partition uint16 // of the task
	dir       posix.Ino
}

// New makes a mover.
func New(cfg Config) (*Mover, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Mine == nil {
		cfg.Mine = func(uint16) bool { return true }
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.PerSecond == 0 {
		cfg.PerSecond = DefaultPerSecond
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = DefaultParallel
	}
	if cfg.Tasks == 0 {
		cfg.Tasks = DefaultTasks
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Mover{
		cfg: cfg, slots: make(chan struct{}, cfg.Tasks), copying: make(chan struct{}, maxCopying),
		pace: pace{each: time.Second / time.Duration(cfg.PerSecond)}, working: map[taskID]bool{},
	}, nil
}

// Run works until ctx ends.
func (m *Mover) Run(ctx context.Context) {
	for _, p := range m.cfg.Client.Cluster().Partitions {
		m.running.Go(func() { m.watch(ctx, p.ID) })
	}
	m.running.Wait()
}

// watch begins work on the tasks of one partition. Partitions are watched independently: one that cannot be
// reached does not delay the others.
func (m *Mover) watch(ctx context.Context, partition uint16) {
	for ctx.Err() == nil {
		if m.cfg.Mine(partition) {
			tasks, err := m.cfg.Client.PartitionTasks(ctx, partition)
			if err != nil {
				m.cfg.Logger.Debug("mover: the tasks of a partition cannot be read: trying again later", "partition", partition, "error", err)
			}
			for _, t := range tasks {
				m.begin(ctx, taskID{partition, t.Dir}, t)
			}
		}
		if pause.Between(ctx, 3*m.cfg.Interval/4, m.cfg.Interval) != nil {
			return
		}
	}
}

// begin works on a task, unless this mover already does or the task is paused.
func (m *Mover) begin(ctx context.Context, id taskID, t meta.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Paused || m.working[id] {
		return
	}
	m.working[id] = true
	m.running.Go(func() {
		newWork(m, id, t).run(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.working, id)
	})
}

// pace spreads moves over time.
type pace struct {
	each time.Duration

	mu   sync.Mutex
	next time.Time // GUARDED_BY mu
}

// wait returns at the caller's turn.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	turn := p.next
	p.next = turn.Add(p.each)
	p.mu.Unlock()
	if !turn.After(now) {
		return ctx.Err()
	}
	return pause.For(ctx, turn.Sub(now))
}
