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
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// workCacheBytes is the size of the block cache of the background work, in bytes.
const workCacheBytes = 8 << 20

// leadsEvery is the time between two checks of the leadership of the replicas on this server.
const leadsEvery = time.Second

// work is the background work of a server: a mover and a collector for the partitions that its replicas lead,
// and for its region if it leads the region's partition. If two servers have the same work for a moment,
// after a change of the leader, this does no harm.
type work struct {
	client    *attach.Client
	caller    attach.Caller
	objects   attach.Objects
	mover     *mover.Mover
	collector *collector.Collector

	canaries *canaries
	movement movement
	compared *comparison

	leading atomic.Pointer[map[uint16]bool]

	life  context.Context // context of run
	stop  context.CancelFunc
	ended chan struct{} // closed when run has ended and the client is closed
	err   error         // error of closing the client; valid after ended
}

func (s *Server) newWork(ctx context.Context) (_ *work, err error) {
	plan, self := s.known.current.Load().cluster, s.self()
	w := &work{ended: make(chan struct{})}
	w.life, w.stop = context.WithCancel(context.Background())
	w.leading.Store(&map[uint16]bool{})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("background work: %w", err), w.close())
		}
	}()
	w.caller = s.dial()
	if w.objects, err = s.openObjects(ctx, plan); err != nil {
		return nil, err
	}
	s.objects.Store(&w.objects)
	w.client, err = attach.New(attach.Config{
		Cluster: plan, Region: self.Region, Caller: w.caller, Objects: w.objects,
		CacheBytes: workCacheBytes, Logger: s.logger.With("component", "background"),
	})
	if err != nil {
		return nil, err
	}
	w.mover, err = mover.New(mover.Config{Client: w.client.Client, Mine: w.leads, Logger: s.logger.With("component", "mover")})
	if err != nil {
		return nil, err
	}
	grace := s.cfg.File.GC.Grace
	if grace == 0 {
		grace = -1 // no grace time, as in the file
	}
	w.collector, err = collector.New(collector.Config{
		Metadata: w.client.Client, Regions: w.client.Regions, Mine: w.leads, Grace: grace, Sweep: s.cfg.File.GC.Sweep,
		Sweeps: func(r topology.Region) bool { return w.leadsRegion(plan, r) }, Logger: s.logger.With("component", "collector"),
	})
	if err != nil {
		return nil, err
	}
	s.metrics.Add(w.collector.Metrics)
	w.canaries = newCanaries(w.client.Answers, func() int { return len(s.known.current.Load().cluster.Servers) })
	s.metrics.Add(func(to metrics.Report) {
		w.canaries.report(to, s.self(), len(s.known.current.Load().cluster.Partitions))
	})
	w.compared = newComparison(s)
	s.metrics.Add(w.compared.report)
	return w, nil
}

// objectsFile is the name of a file in the data directory. It exists once the server has found, or made, the
// cluster's markers in the object storage. From then on the markers must exist.
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

// signing returns the function that signs requests to the object storage for clients without credentials; nil
// if the blocks are on the servers' disks.
func signing(s *Server) func(context.Context, block.Signing) (string, error) {
	plan, region := s.known.current.Load().cluster, s.self().Region
	if plan.Objects == nil {
		return nil
	}
	return func(ctx context.Context, q block.Signing) (string, error) {
		stores := s.objects.Load()
		if stores == nil {
			return "", fmt.Errorf("server %s has not reached the object storage yet: %w", s.cfg.Name, block.ErrUnavailable)
		}
		return (*stores)[region].Sign(ctx, q)
	}
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

// run works until ctx ends or it is stopped, and closes the client.
func (w *work) run(ctx context.Context, of *server.Server) {
	defer close(w.ended)
	defer context.AfterFunc(ctx, w.stop)()
	var running sync.WaitGroup
	running.Go(func() { w.mover.Run(w.life) })
	running.Go(func() { w.collector.Run(w.life) })
	watched := 0
	for ended := false; !ended; ended = pause.For(w.life, leadsEvery) != nil {
		for now := len(w.client.Cluster().Partitions); watched < now; watched++ {
			partition := uint16(watched)
			running.Go(func() { w.canaries.run(w.life, partition) })
		}
		w.leading.Store(w.leadingNow(w.life, of))
	}
	running.Wait()
	w.err = w.client.Close()
}

// Rest ends the background work of the server until its next start, and returns when it has ended. Call it
// before the servers of a cluster in one process stop together, so that no background work sends updates to
// stopping servers. Run must have been called, or be about to be called.
func (s *Server) Rest() {
	s.work.stop()
	<-s.work.ended
}

// leadingNow returns the partitions with their leader on this server, and records the progress of the
// replicas. A replica that does not answer counts as no leader.
func (w *work) leadingNow(ctx context.Context, of *server.Server) *map[uint16]bool {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	leads, applied := map[uint16]bool{}, map[multicast.ProcessID]uint64{}
	for _, r := range of.Replicas(ctx) {
		leads[r.Partition], applied[r.Self] = r.Leads, r.Applied
	}
	w.movement.note(time.Now(), applied)
	return &leads
}

// close closes the open resources, after run has ended or if it has never begun.
func (w *work) close() error {
	w.stop()
	var err error
	select {
	case <-w.ended:
		err = w.err
	default:
		switch {
		case w.client != nil:
			err = w.client.Close() // and the caller
		case w.caller != nil:
			err = w.caller.Close()
		}
	}
	return errors.Join(err, w.objects.Close())
}
