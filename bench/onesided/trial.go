package onesided

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// trial is one load of TPC-C on Heron, in virtual time.
type trial struct {
	cfg     *HeronConfig
	load    load
	model   *model
	begun   map[multicast.MessageID]*call
	samples []sample
}

// load is the work of the clients. Each process has a client for its own warehouse.
type load struct {
	warehouses, members int
	clients             int  // of each process that has one
	one                 bool // one client in all
	order               bool // order only, execute nothing (the paper's RamCast)
	null                bool // coordinate, but execute nothing
	kind                int  // of all transactions; -1: the mix of the benchmark
	span                int  // warehouses of each transaction; 0: as in the benchmark; 1: the own one
}

// call is a transaction under way.
type call struct {
	transaction
	client    *process
	begun     time.Duration
	delivered time.Duration // at the client's replica
	groups    map[multicast.GroupID]bool
	last      time.Duration // when the latest response comes to the client
}

// sample is a transaction that has ended.
type sample struct {
	kind             kind
	shared           bool
	latency, ordered time.Duration
}

func (c *HeronConfig) newTrial(l load) (*trial, error) {
	t := &trial{cfg: c, load: l, begun: map[multicast.MessageID]*call{}}
	tree := layout{groups: l.warehouses, members: l.members, parents: map[multicast.GroupID]multicast.GroupID{}}
	for i := 1; i < l.warehouses; i++ {
		tree.parents[multicast.GroupID(i)] = multicast.GroupID((i - 1) / 2)
	}
	m, err := newModel(&Config{Seed: c.Seed, Cost: c.Cost, Payload: 13 + 5*15}, tree, 0)
	if err != nil {
		return nil, err
	}
	t.model = m
	for _, p := range m.processes {
		if !l.order {
			if err := t.execute(p, m.groups); err != nil {
				return nil, err
			}
		}
		p.trial = t
	}
	clients := m.processes
	if l.one {
		clients = clients[:1]
	}
	for _, p := range clients {
		for range max(1, l.clients) {
			m.net.Schedule(time.Duration(m.rng.Int64N(int64(5*time.Microsecond))), func() { t.call(p) })
		}
	}
	return t, nil
}

// call begins a transaction.
func (t *trial) call(p *process) {
	m := t.model
	k := kind(max(0, t.load.kind))
	if t.load.kind < 0 {
		k = mix(m.rng)
	}
	x := draw(m.rng, k, p.group, t.load.warehouses, t.load.span)
	if t.load.null {
		x.kind = nothing
	}
	p.seq++
	id := multicast.MessageID{Sender: p.id, Seq: p.seq}
	c := &call{transaction: x, client: p, begun: m.net.Now(), groups: map[multicast.GroupID]bool{}}
	t.begun[id] = c
	for _, g := range x.groups() {
		c.groups[g] = true
	}
	p.in.Proposed = append(p.in.Proposed, multicast.Message{ID: id, Dest: x.groups(), Payload: x.encode()})
	p.wake()
}

// delivered records a delivery at a replica.
func (t *trial) delivered(p *process, d *multicast.Delivery) {
	c := t.begun[d.ID]
	if c == nil {
		return
	}
	if c.client == p {
		c.delivered = t.model.net.Now()
	}
	if t.load.order {
		t.response(p, d.ID)
	}
}

// answered records a response of a replica.
func (t *trial) answered(p *process, r *heron.Response) { t.response(p, r.ID) }

// response: the first response of each group counts. It takes a latency to the client.
func (t *trial) response(p *process, id multicast.MessageID) {
	c, m := t.begun[id], t.model
	if c == nil || !c.groups[p.group] {
		return
	}
	delete(c.groups, p.group)
	at := m.net.Now()
	if p != c.client {
		at += t.cfg.Cost.LatencyMin + time.Duration(m.rng.Int64N(int64(t.cfg.Cost.LatencyMax-t.cfg.Cost.LatencyMin)+1))
	}
	c.last = max(c.last, at)
	if len(c.groups) > 0 {
		return
	}
	delete(t.begun, id)
	m.net.Schedule(c.last, func() {
		t.samples = append(t.samples, sample{
			kind: c.kind, shared: len(c.transaction.groups()) > 1, latency: c.last - c.begun, ordered: max(0, c.delivered-c.begun),
		})
		t.call(c.client)
	})
}

// run lets the clients work, and gives the counts of the window.
func (t *trial) run(ctx context.Context) (stats heron.Stats, err error) {
	if err := t.model.run(ctx, t.cfg.Warmup); err != nil {
		return stats, err
	}
	before := t.stats()
	t.samples = nil
	if err := t.model.run(ctx, t.cfg.Warmup+t.cfg.Window); err != nil {
		return stats, err
	}
	if len(t.samples) == 0 {
		return stats, fmt.Errorf("%d warehouses: no transaction has ended in %v of virtual time", t.load.warehouses, t.cfg.Window)
	}
	return minus(t.stats(), before), nil
}

// stats sums the counts of all replicas.
func (t *trial) stats() (sum heron.Stats) {
	for _, p := range t.model.processes {
		if p.executor != nil {
			sum = plus(sum, p.executor.core.Stats())
		}
	}
	return sum
}

// median gives the median latency of samples.
func median(samples []sample, of func(sample) time.Duration) float64 {
	var all []time.Duration
	for _, s := range samples {
		all = append(all, of(s))
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return microseconds(all[(len(all)-1)/2])
}

// plus and minus combine the counts of a report.
func plus(a, b heron.Stats) heron.Stats  { return combined(a, b, 1) }
func minus(a, b heron.Stats) heron.Stats { return combined(a, b, -1) }

func combined(a, b heron.Stats, sign int) heron.Stats {
	a.Shared += sign * b.Shared
	a.Delayed += sign * b.Delayed
	a.DelayedBy += time.Duration(sign) * b.DelayedBy
	a.Gathering += time.Duration(sign) * b.Gathering
	a.Fetching += time.Duration(sign) * b.Fetching
	a.Leaving += time.Duration(sign) * b.Leaving
	return a
}
