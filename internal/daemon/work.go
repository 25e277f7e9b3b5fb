package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// workCacheBytes bounds the blocks that the background work keeps in memory.
const workCacheBytes = 8 << 20

// leadsEvery is how often the replicas here are asked whether they lead.
const leadsEvery = time.Second

// work is what a server does in the background for the partitions that its replicas lead, and for its region if it leads the partition of that:
// a mover and a collector. Who leads may change in the middle; that two do the same for a moment does no harm.
type work struct {
	client    *attach.Client
	caller    *transport.Client
	objects   attach.Objects
	mover     *mover.Mover
	collector *collector.Collector

	leading atomic.Pointer[map[uint16]bool]
}

func (s *Server) newWork(ctx context.Context) (_ *work, err error) {
	plan, self := s.known.now.Load().cluster, s.self()
	w := &work{}
	w.leading.Store(&map[uint16]bool{})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("background work: %w", err), w.close())
		}
	}()
	network, err := s.network()
	if err != nil {
		return nil, err
	}
	w.caller = transport.Dial(network)
	if w.objects, err = s.openObjects(ctx, plan); err != nil {
		return nil, err
	}
	w.client, err = attach.New(attach.Config{
		Cluster: plan, Region: self.Region, Caller: w.caller, Objects: w.objects,
		CacheBytes: workCacheBytes, Logger: s.cfg.Logger.With("component", "background"),
	})
	if err != nil {
		return nil, err
	}
	w.mover, err = mover.New(mover.Config{Client: w.client.Client, Mine: w.leads, Logger: s.cfg.Logger.With("component", "mover")})
	if err != nil {
		return nil, err
	}
	grace := s.cfg.File.GC.Grace
	if grace == 0 {
		grace = -1 // none, as the file says
	}
	w.collector, err = collector.New(collector.Config{
		Metadata: w.client.Client, Regions: w.client.Regions, Mine: w.leads, Grace: grace, Sweep: s.cfg.File.GC.Sweep,
		Sweeps: func(r topology.Region) bool { return w.leadsRegion(plan, r) }, Logger: s.cfg.Logger.With("component", "collector"),
	})
	if err != nil {
		return nil, err
	}
	s.metrics.Add(w.collector.Metrics)
	return w, nil
}

// objectsFile is in the directory of a server that has found, or made, the cluster's markers in the object storage: from then on they must
// be there.
const objectsFile = "objects"

func (s *Server) openObjects(ctx context.Context, plan *topology.Cluster) (attach.Objects, error) {
	path := filepath.Join(s.dir, objectsFile)
	_, err := os.Stat(path)
	known := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	stores, err := attach.OpenObjects(ctx, plan, known)
	if stores == nil || err != nil || known {
		return stores, err
	}
	if err := durable.WriteFile(path, []byte("This server has seen the cluster's buckets.\n")); err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	return stores, nil
}

func (w *work) leads(partition uint16) bool { return (*w.leading.Load())[partition] }

// leadsRegion reports whether a replica here leads the local partition of a region.
func (w *work) leadsRegion(plan *topology.Cluster, r topology.Region) bool {
	for _, p := range plan.Partitions {
		if p.Region == r {
			return w.leads(p.ID)
		}
	}
	return false
}

// run works until ctx ends.
func (w *work) run(ctx context.Context, of *server.Server) {
	var running sync.WaitGroup
	running.Go(func() { w.mover.Run(ctx) })
	running.Go(func() { w.collector.Run(ctx) })
	for pause.For(ctx, leadsEvery) == nil {
		w.leading.Store(leading(ctx, of))
	}
	running.Wait()
}

// leading tells which replicas here lead. One that does not answer does not.
func leading(ctx context.Context, of *server.Server) *map[uint16]bool {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	leads := map[uint16]bool{}
	for _, r := range of.Replicas(ctx) {
		leads[r.Partition] = r.Leads
	}
	return &leads
}

func (w *work) close() error {
	var err error
	switch {
	case w.client != nil:
		err = w.client.Close() // and the caller
	case w.caller != nil:
		err = w.caller.Close()
	}
	return errors.Join(err, w.objects.Close())
}
