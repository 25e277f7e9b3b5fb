package process

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Shape is the pattern of senders and destinations.
type Shape struct {
	Name        string
	Description string
	Groups      int
	// dest gives the destinations of the client of group g, taken in turn.
	dest func(g multicast.GroupID) [][]multicast.GroupID
}

// MaxOutstanding is the maximal number of outstanding messages of a client.
const MaxOutstanding = 8192

// replicas of each group.
const replicas = 3

// Shapes returns the shapes in which the prototypes were measured.
func Shapes() []Shape {
	return []Shape{
		{"a", "1 group x 3", 1, func(multicast.GroupID) [][]multicast.GroupID { return [][]multicast.GroupID{{0}} }},
		{"b", "2 groups x 3, every message to both", 2, func(multicast.GroupID) [][]multicast.GroupID { return [][]multicast.GroupID{{0, 1}} }},
		{"c", "4 groups x 3, each message to the client's and another group", 4, ownAndAnother},
	}
}

func ownAndAnother(g multicast.GroupID) (dest [][]multicast.GroupID) {
	for other := range multicast.GroupID(4) {
		if other != g {
			dest = append(dest, []multicast.GroupID{min(g, other), max(g, other)})
		}
	}
	return dest
}

// groups of the shape: the members of group g are numbered from 3g+1.
func (s *Shape) groups() []multicast.Group {
	groups := make([]multicast.Group, s.Groups)
	for g := range groups {
		groups[g].ID = multicast.GroupID(g)
		for i := range replicas {
			groups[g].Members = append(groups[g].Members, multicast.ProcessID(replicas*g+i+1))
		}
	}
	return groups
}

// Config of a measurement.
type Config struct {
	Program     []string // the command that starts a child
	Environment []string // of the children, beside the parent's
	Shape       Shape
	Outstanding int           // over all clients
	Messages    uint64        // run until so many are completed; 0: for Duration
	Duration    time.Duration // of the measurement
	Warmup      time.Duration
	Payload     int           // bytes
	Window      int           // see primcast.Config
	PackDelay   time.Duration // see primcast.Config
	Durability  wal.Durability
	Dir         string        // of the replicas' logs; "": a temporary directory
	Profile     string        // directory for a CPU profile of each replica; "": none
	Down        time.Duration // the time until the restart of a killed replica
	// Progress, if not nil, is called with the progress of a long run.
	Progress func(string)
}

// Point is the result of a measurement.
type Point struct {
	Shape       string  `json:"shape"`
	Outstanding int     `json:"outstanding"`
	Messages    uint64  `json:"messages"`
	Seconds     float64 `json:"seconds"`
	PerSecond   float64 `json:"per_second"` // as the clients see it
	P50         uint64  `json:"p50_us"`
	P95         uint64  `json:"p95_us"`
	CPU         float64 `json:"cpu_seconds_per_10k"` // user and system time of all replicas, clients included
	RSSStart    int64   `json:"rss_start_bytes"`     // of the largest replica, after the warm-up
	RSSEnd      int64   `json:"rss_end_bytes"`
}

// sampleEvery is the time between two samples of a running measurement.
const sampleEvery = 2 * time.Second

// Run measures one point, on a cluster of its own.
func Run(ctx context.Context, cfg Config) (p Point, err error) {
	k, err := start(ctx, &cfg, cfg.Shape.groups())
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.load(ctx, k.primaries()); err != nil {
		return p, err
	}
	if err := pause.For(ctx, cfg.Warmup); err != nil {
		return p, err
	}
	before, err := k.sample(ctx, true)
	if err != nil {
		return p, err
	}
	after := before
	for cfg.Messages == 0 && after.at.Sub(before.at) < cfg.Duration || after.completed-before.completed < cfg.Messages {
		wait := sampleEvery
		if cfg.Messages == 0 {
			wait = min(wait, cfg.Duration-after.at.Sub(before.at))
		}
		if err := pause.For(ctx, wait); err != nil {
			return p, err
		}
		if after, err = k.sample(ctx, false); err != nil {
			return p, err
		}
		k.progress("%8.1fs %10d messages, largest replica %d MiB", after.at.Sub(before.at).Seconds(), after.completed-before.completed, after.rss>>20)
	}
	latency := k.latency()
	if err := k.drain(ctx, 0); err != nil {
		return p, err
	}
	p = Point{
		Shape: cfg.Shape.Name, Outstanding: cfg.Outstanding,
		Messages: after.completed - before.completed, Seconds: after.at.Sub(before.at).Seconds(),
		P50: latency.quantile(0.5), P95: latency.quantile(0.95), RSSStart: before.rss, RSSEnd: after.rss,
	}
	p.PerSecond = float64(p.Messages) / p.Seconds
	p.CPU = (after.cpu - before.cpu).Seconds() / max(1, float64(p.Messages)) * 1e4
	return p, k.check()
}

func (k *cluster) progress(format string, args ...any) {
	if k.cfg.Progress != nil {
		k.cfg.Progress(fmt.Sprintf(format, args...))
	}
}

// primaries returns the first members of the groups, or of the first group only if there is not a message for
// each.
func (k *cluster) primaries() (clients []multicast.ProcessID) {
	for _, g := range k.groups[:min(len(k.groups), k.cfg.Outstanding)] {
		clients = append(clients, g.Members[0])
	}
	return clients
}

// load starts the clients of these processes, which share the outstanding messages.
func (k *cluster) load(ctx context.Context, clients []multicast.ProcessID) error {
	for i, p := range clients {
		l := &load{
			Outstanding: (k.cfg.Outstanding + i) / len(clients),
			Payload:     k.cfg.Payload,
			Dest:        k.cfg.Shape.dest(k.groupOf(p)),
		}
		if err := k.children[p].ask(ctx, order{command: command{Load: l}}); err != nil {
			return err
		}
	}
	return nil
}

func (k *cluster) groupOf(p multicast.ProcessID) multicast.GroupID {
	return multicast.GroupID((p - 1) / replicas)
}

// sample is the state of the cluster at a moment.
type sample struct {
	at        time.Time
	completed uint64
	cpu       time.Duration // of all
	rss       int64         // of the largest
}

// sample takes a sample of all replicas; the first one starts the measurement.
func (k *cluster) sample(ctx context.Context, first bool) (s sample, err error) {
	for p := range k.all() {
		o := order{command: command{Mark: first}}
		if first && k.cfg.Profile != "" {
			o.Profile = filepath.Join(k.cfg.Profile, fmt.Sprintf("%s-%d-%d.pprof", k.cfg.Shape.Name, k.cfg.Outstanding, p))
		}
		if err := k.children[p].ask(ctx, o); err != nil {
			return s, err
		}
		s.completed += k.children[p].last.Completed
	}
	s.at = time.Now()
	for p := range k.all() {
		pid := k.children[p].command.Process.Pid
		cpu, err := bench.ProcessTime(pid)
		if err != nil {
			return s, err
		}
		rss, err := rssOf(pid)
		if err != nil {
			return s, err
		}
		s.cpu += cpu
		s.rss = max(s.rss, rss)
	}
	return s, nil
}

// latency of all clients since the measurement started, as of the last sample.
func (k *cluster) latency() (h histogram) {
	for p := range k.all() {
		h.merge(k.children[p].last.Latency)
	}
	return h
}
