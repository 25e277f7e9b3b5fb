package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/trace"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// hosted is one run of a replica on this server, with its resources.
type hosted struct {
	partition uint16
	index     int // place among the replicas of the partition
	process   multicast.ProcessID
	endpoint  transport.Endpoint
	keys      *kv.Store
	log       *wal.Log
	replica   *replica.Replica
	driver    *driver.Driver
	memory    *oneSided // of a partition that is ordered in one-sided memory; nil: none
	exports   exports
	cut       cut
	counts    *counts
	odd       chan error    // capacity 1: the reason why the replica must stop and be replaced
	bounded   chan struct{} // capacity 1: a bounded client uses the replica, see askLoads
	catching  atomic.Bool   // the replica takes over the state of another one, and takes no turns
	marked    bool          // records may be lost, and the log does not say so yet
	amnesiac  atomic.Bool   // records are lost, and the replica has no vote
	// opened are sessions of bound clients that were open at some time, see checkStored.
	opened *recent.Map[session.Name, struct{}]
}

// close ends the access by the network first, so that no call uses a closed store. A second call does
// nothing.
func (h *hosted) close() error {
	var errs []error
	if h.endpoint != nil {
		errs = append(errs, h.endpoint.Close())
	}
	if h.driver != nil {
		h.driver.Stop() // Run may not have been called
	}
	if h.memory != nil {
		errs = append(errs, h.memory.endpoint.Close())
	}
	h.cut.close()
	h.exports.close()
	if h.log != nil {
		errs = append(errs, h.log.Close())
	}
	if h.keys != nil {
		errs = append(errs, h.keys.Close())
	}
	h.endpoint, h.log, h.keys = nil, nil, nil
	return errors.Join(errs...)
}

// A failed replica restarts after a wait. The wait doubles with each failure up to restartMost. After a run
// longer than restartMost it begins again with restartFirst.
const (
	restartFirst = time.Second
	restartMost  = 30 * time.Second
)

// run drives a replica until ctx ends. A replica that is behind takes over the state of another one and
// restarts. A replica that has failed, for example because of a full disk, restarts after a wait. The replica
// ends for good if an invariant is broken, in which case the error has the evidence, or if its group has
// replaced it. The caller closes the last run.
func (s *Server) run(ctx context.Context, r *residence) error {
	for wait := restartFirst; ; {
		h, began := r.hosted.Load(), time.Now()
		adopted, err := s.drive(ctx, h)
		if err == nil && !adopted {
			return nil
		}
		if errors.Is(err, driver.ErrRetired) {
			s.cfg.Logger.Warn("a replica here was replaced and has stopped: its partition goes on without it; nothing is to be done if "+
				"'globalfs status' shows another server for it, and its directory can go then",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "dir", h.exports.dir)
			return nil
		}
		if damage := errors.Join(err, h.keys.Err()); isDamage(damage) { // damage may have caused the other errors
			return damage
		}
		if err = errors.Join(err, h.close()); err == nil {
			err = s.again(r, h)
		}
		if time.Since(began) > restartMost {
			wait = restartFirst
		}
		for ; err != nil; err = s.again(r, h) {
			if broken := (invariant.Violation{}); errors.As(err, &broken) || isDamage(err) || ctx.Err() != nil {
				return err
			}
			s.cfg.Logger.Error("a replica has failed: its partition goes on with the others, and it starts anew",
				"server", s.cfg.Name, "partition", h.partition, "process", h.process, "in", wait, "error", err)
			r.stopped(StateFailing, err)
			if pause.For(ctx, wait) != nil {
				return nil //nolint:nilerr // ctx has ended: the error is logged
			}
			wait = min(2*wait, restartMost)
		}
	}
}

// again starts a new run of a replica after the closed run h. Until then h stays in its place and answers
// calls with an error.
func (s *Server) again(r *residence, h *hosted) error {
	incarnation, err := s.nextIncarnation()
	if err != nil {
		return err
	}
	next := &hosted{partition: h.partition, index: h.index, process: h.process, counts: h.counts}
	if err := s.startReplica(next, incarnation); err != nil {
		return errors.Join(err, next.close())
	}
	r.hosted.Store(next)
	r.trouble.Store(nil)
	return nil
}

// drive drives a run of a replica until ctx ends, it fails, or it has taken over the state of another one.
func (s *Server) drive(ctx context.Context, h *hosted) (adopted bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	var catching sync.WaitGroup
	catching.Go(func() {
		select {
		case <-h.driver.Behind():
			adopted = s.catchUp(ctx, h, stop)
		case <-ctx.Done():
		}
	})
	var damage error
	catching.Go(func() {
		if damage = s.scrub(ctx, h); damage != nil {
			stop()
		}
	})
	catching.Go(func() { s.verifyDigest(ctx, h) })
	catching.Go(func() { s.unmark(ctx, h) })
	catching.Go(func() { h.askLoads(ctx, s) })
	var odd error
	catching.Go(func() {
		select {
		case odd = <-h.odd:
			stop()
		case <-ctx.Done():
		}
	})
	err = h.driver.Run(ctx)
	stop()
	catching.Wait()
	return adopted, errors.Join(err, damage, odd)
}

// logAhead is the number of zero bytes that are written ahead in the log of a replica. On ext4 this makes
// syncs two to five times as fast.
const logAhead = 256 << 10

// startReplica opens a replica, recovers it from its store and log, and begins to answer calls.
func (s *Server) startReplica(h *hosted, incarnation uint64) (err error) {
	plan, n := s.plan.Load(), h.index
	p := &plan.Partitions[h.partition]
	dir := s.partitionDir(p.ID)
	h.odd, h.bounded = make(chan error, 1), make(chan struct{}, 1)
	h.opened = recent.New[session.Name, struct{}](maxOpened)
	h.exports = exports{dir: dir, first: incarnation << 32, open: map[uint64]*export{}}
	if err := checkRolledBack(dir); err != nil {
		return err
	}
	if h.keys, err = s.openKeys(filepath.Join(dir, "state")); err != nil {
		return err
	}
	if err := s.endAdoption(h, filepath.Join(dir, "log")); err != nil {
		return err
	}
	if s.cfg.Durability != wal.Memory {
		if err := checkLog(h, filepath.Join(dir, "log")); err != nil {
			return err
		}
	}
	if h.log, err = wal.Open(filepath.Join(dir, "log"), wal.Options{Durability: s.cfg.Durability, Ahead: logAhead, Boot: BootID()}); err != nil {
		return err
	}
	if err := s.checkPosition(h, dir); err != nil {
		return err
	}
	if cut := h.log.Repaired(); cut > 0 {
		s.cfg.Logger.Warn("write-ahead log: cut a record that was not completely written before the last stop",
			"server", s.cfg.Name, "partition", p.ID, "bytes", cut)
	}
	if h.marked, err = isMarked(dir); err != nil {
		return err
	}
	local, cross, err := s.recoverCores(plan, h, incarnation)
	if err != nil {
		return err
	}
	if err := s.reexamine(h, dir); err != nil {
		return err
	}
	machine, err := meta.New(h.keys, metaConfig(plan, p))
	if err != nil {
		return err
	}
	h.amnesiac.Store(h.marked || local.Amnesiac())
	log := timedLog{h.log, &h.counts.appends, &h.counts.syncs}
	h.replica, err = replica.New(replica.Config{
		Cluster: plan.Identity(), Partition: p.ID, Groups: plan.Groups(), Founded: plan.Founded, Shards: plan.Shards(p.Region), Self: h.process, Index: n, Incarnation: incarnation, Cut: h.saveCut,
		Sealer: s.sealer, Rights: s.grants, Tickets: s.tickets, TicketsOptional: s.cfg.TicketsOptional,
	}, local, cross, syncedKeys{h.keys, log}, machine)
	if err != nil {
		return err
	}
	for _, replacement := range plan.Replacements(p) {
		h.replica.Replace(replacement)
	}
	h.endpoint = s.cfg.Endpoint(h.process)
	if core, ok := local.(*onesided.Core); ok {
		if err := (memory{s, h}).open(core, plan.Multicast.Fabric); err != nil {
			return err
		}
	}
	links, err := h.endpoint.Links(incarnation)
	if err != nil {
		return err
	}
	logger := s.cfg.Logger.With("server", s.cfg.Name, "partition", p.ID, "process", h.process)
	links = countedLinks{links, &h.counts.longFrames, logger}
	h.driver = driver.New(h.process, voter{h.replica, local, &h.amnesiac, logger}, links, log, driver.NewSystemClock())
	if h.memory != nil {
		h.driver.UseMemory(h.memory.endpoint)
	}
	h.driver.Observe(&tracer{server: s, partition: h.partition, updates: map[uint64]trace.Command{}})
	h.endpoint.ServeLater(later{s, h})
	h.endpoint.Serve(s.serve(h))
	return nil
}

// endAdoption writes the log that belongs to a store which came from another replica. It does nothing for
// other stores.
func (s *Server) endAdoption(h *hosted, dir string) error {
	record := replica.Adopted(h.keys)
	if record == nil {
		return nil
	}
	log, err := wal.Open(dir, wal.Options{Durability: s.cfg.Durability, Boot: BootID()})
	if err != nil {
		return err
	}
	if err := errors.Join(log.Append([][]byte{record}, true), log.Close()); err != nil {
		return err
	}
	return replica.EndAdoption(h.keys)
}

// openKeys opens the store of a replica. With wal.Memory the store is in memory.
func (s *Server) openKeys(dir string) (*kv.Store, error) {
	if s.cfg.Durability == wal.Memory {
		return kv.NewMemory(), nil
	}
	return kv.Open(dir, kv.Options{})
}

// recoverCores replays the log over the store. The cores will deliver again the entries that the store lacks.
func (s *Server) recoverCores(plan *topology.Cluster, h *hosted, incarnation uint64) (local order.Recovered, cross *primcast.Core, err error) {
	position, relayed, err := replica.Positions(h.keys)
	if err != nil {
		return nil, nil, err
	}
	groups := plan.Groups()
	cfg := primcast.Config{
		Self: h.process, Groups: groups[h.partition : h.partition+1], Delivered: multicast.UpTo(position), Seed: incarnation,
		Retain: s.cfg.Retain,
	}
	if s.cfg.Durability == wal.Memory {
		cfg.Retain = math.MaxInt // a replica that took over a state would lose it at the restart that follows
	}
	if seat := plan.Partitions[h.partition].Replicas[h.index].Seat; seat != h.process {
		cfg.Replaces = seat
	}
	cfg.Amnesiac, cfg.Overlap = h.marked, s.cfg.Durability == wal.Sync
	if plan.OrderOf(&plan.Partitions[h.partition]) == topology.LocalTRAM {
		local, err = memory{s, h}.newCore(plan, position, incarnation)
	} else {
		local, err = primcast.New(cfg)
	}
	if err != nil {
		return nil, nil, err
	}
	cfg.Amnesiac, cfg.Overlap = false, false // the order between partitions syncs all records, and sends nothing before its records
	cfg.Groups, cfg.Founded, cfg.Delivered = groups, plan.Founded, relayed
	cfg.Classes, cfg.HybridClock = true, true
	if cross, err = primcast.New(cfg); err != nil {
		return nil, nil, err
	}
	for record, err := range h.log.Replay() {
		if err != nil {
			return nil, nil, fmt.Errorf("write-ahead log: %w", err)
		}
		if err := order.Replay(local, cross, record); err != nil {
			return nil, nil, fmt.Errorf("write-ahead log: %w", err)
		}
	}
	return local, cross, checkStore(local, cross)
}

// metaConfig returns the configuration of the metadata of a partition.
func metaConfig(plan *topology.Cluster, p *topology.Partition) meta.Config {
	return meta.Config{
		Partition: p.ID, Genesis: genesis(plan, p), Time: posix.Time(max(0, plan.Created.UnixNano())),
		Owner: posix.Cred{UID: plan.Owner.UID, GID: plan.Owner.GID}, Shards: plan.BirthShards(p),
	}
}

// genesis returns the directories that exist in partition p of a new cluster.
func genesis(c *topology.Cluster, p *topology.Partition) []meta.Birth {
	if p.ID != 0 {
		return nil
	}
	var births []meta.Birth
	for _, local := range c.Partitions[1:] {
		if local.Shard > 0 {
			continue // only its directories are made
		}
		births = append(births, meta.Birth{Name: local.Path[1:], Ino: local.Root()})
	}
	return births
}
