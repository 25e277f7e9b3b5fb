package dev

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// plan is the cluster of the registry's last description.
type plan struct {
	cluster *topology.Cluster
	hosts   map[multicast.ProcessID]*topology.Server
}

// resolve returns the address of the server that hosts a process.
func (c *Cluster) resolve(p multicast.ProcessID) (string, bool) {
	if s := c.plan.Load().hosts[p]; s != nil {
		return s.Address, true
	}
	return "", false
}

// running is a server that should run.
type running struct {
	server  atomic.Pointer[daemon.Server] // nil: it has not started yet
	stop    context.CancelFunc
	started chan struct{} // closed when it has started
	ended   chan struct{} // closed when the server has ended and is closed
	err     error         // the reason of the end; valid after ended
}

// startAll starts the servers of the description and follows its changes: it starts servers that join, and
// stops servers that have left. It returns when all present servers have started.
func (c *Cluster) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	document, err := c.registry.Load(ctx)
	if err != nil {
		return err
	}
	if err := c.adapt(document); err != nil {
		return err
	}
	c.metrics.Add(c.report)
	c.mu.Lock()
	var all []*running
	for _, r := range c.servers {
		all = append(all, r)
	}
	c.mu.Unlock()
	for _, r := range all {
		if err := r.await(ctx); err != nil {
			return err
		}
	}
	if document, err = c.registry.Load(ctx); err != nil { // lost disks have changed it
		return err
	}
	if err := c.adapt(document); err != nil {
		return err
	}
	c.ends.Go(func() { c.registry.Watch(c.life, c.follow) })
	return nil
}

// await waits until a server has started. Otherwise it returns the reason.
func (r *running) await(ctx context.Context) error {
	select {
	case <-r.started:
		return nil
	case <-r.ended:
		return r.err
	case <-ctx.Done():
	}
	r.stop()
	<-r.ended
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("a server has not started in time: %w", r.err)
}

// follow applies a new description to the cluster.
func (c *Cluster) follow(document registry.Document) {
	if err := c.adapt(document); err != nil {
		c.cfg.Logger.Error("a change of the cluster is not followed", "error", err)
	}
}

// adapt changes the cluster to match a description. It does not wait for servers.
func (c *Cluster) adapt(document registry.Document) error {
	spec, err := topology.ParseSpec(document.Value)
	if err != nil {
		return fmt.Errorf("description of the cluster: %w", err)
	}
	cluster, err := spec.Plan()
	if err != nil {
		return fmt.Errorf("description of the cluster: %w", err)
	}
	if err := cluster.Crowded(); err != nil {
		return err
	}
	c.plan.Store(&plan{cluster, cluster.Hosts()})
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.clients {
		f.follow(cluster)
	}
	for _, s := range cluster.Servers {
		switch r := c.servers[s.Name]; {
		case r != nil && gone(cluster, &s):
			r.stop()
			delete(c.servers, s.Name)
		case !c.everStarted[s.Name] && !gone(cluster, &s):
			c.begin(s.Name)
		}
	}
	return nil
}

// begin starts a server, and runs it until it is stopped. The caller holds mu.
func (c *Cluster) begin(name string) *running {
	ctx, stop := context.WithCancel(c.life)
	r := &running{stop: stop, started: make(chan struct{}), ended: make(chan struct{})}
	c.everStarted[name], c.servers[name] = true, r
	c.ends.Go(func() {
		defer close(r.ended)
		defer stop()
		r.err = c.serve(ctx, name, r)
		if r.err == nil || r.server.Load() == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, r.err)
	})
	return r
}

// serve starts a server and runs it until ctx ends.
func (c *Cluster) serve(ctx context.Context, name string, r *running) error {
	err := c.certifyServer(name)
	if err == nil {
		var s *daemon.Server
		s, err = daemon.StartServer(ctx, daemon.ServerConfig{
			File: c.file, Name: name, Build: c.cfg.Build, Logger: c.cfg.Logger, Tuning: c.cfg.Tuning,
			Registry: c.registry, Network: c.network.ofServers(), Listener: c.network.listener(name),
		})
		if err == nil {
			r.server.Store(s)
			close(r.started)
			return s.Run(ctx)
		}
	}
	if ctx.Err() == nil {
		c.cfg.Logger.Error("a server cannot start", "server", name, "error", err)
	}
	return err
}

// started returns the started servers that should run.
func (c *Cluster) started() (all []*daemon.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.servers {
		if s := r.server.Load(); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// rest ends the background work of all servers.
func (c *Cluster) rest() {
	var resting sync.WaitGroup
	for _, s := range c.started() {
		resting.Go(s.Rest)
	}
	resting.Wait()
}

// report reports the metrics of the running servers.
func (c *Cluster) report(report metrics.Report) {
	for _, s := range c.started() {
		s.Metrics().Report(report)
	}
}
