package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// blockTimeout is the time limit of another storage server for one block. Then the next storage server is
// asked.
const blockTimeout = 3 * time.Second

// StorageConfig configures a storage server.
type StorageConfig struct {
	Self    multicast.ProcessID
	Members region.Members // the planned members; a file in Dir may have newer ones
	Copies  int            // number of copies of each block
	Dir     string         // directory of the server, which must exist
	NoSync  bool           // see disk.Config
	// Healing configures the repair of the region. Zero: region.DefaultHealing.
	Healing  region.Healing
	Endpoint transport.Endpoint          // network access of Self; Storage closes it
	Asker    func(context.Context) Asker // see Config.Asker
	// Turn waits for the turn of a client's request; the caller calls done after the request. nil: requests
	// need no turn.
	Turn   func(context.Context) (done func(), err error)
	MayGet func(context.Context, block.ID, block.Right) bool    // see region.Config
	Sign   func(context.Context, block.Signing) (string, error) // see region.Config
	// Partitions returns the number of partitions of the tree; see region.Config.
	Partitions func() int
	Logger     *slog.Logger
	// Region and Server are the labels of the metrics.
	Region, Server string
}

// Storage is the storage server: the disk, the node of the region, and the network access.
type Storage struct {
	cfg  StorageConfig
	disk *disk.Store
	node *region.Node
}

// StartStorage opens a storage server and begins to answer calls. The caller then calls Run, and finally
// Close. After an error nothing is left open.
func StartStorage(cfg StorageConfig) (_ *Storage, err error) {
	s := &Storage{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("storage node: %w", err), s.Close())
		}
	}()
	if cfg.Healing == (region.Healing{}) {
		cfg.Healing = region.DefaultHealing()
	}
	config := disk.DefaultConfig(filepath.Join(cfg.Dir, "blocks"))
	config.NoSync, config.Log = cfg.NoSync, cfg.Logger
	if s.disk, err = disk.Open(config); err != nil {
		return nil, err
	}
	members, err := newestMembers(cfg.Dir, cfg.Members)
	if err != nil {
		return nil, err
	}
	s.node, err = region.NewNode(region.Config{
		Self: cfg.Self, Members: members, Copies: cfg.Copies, Disk: s.disk, Peers: cfg.Endpoint, CallTimeout: blockTimeout,
		Role: cfg.role, MayGet: cfg.MayGet, Sign: cfg.Sign, Partitions: cfg.Partitions, Healing: cfg.Healing, Save: func(m region.Members) error { return saveMembers(cfg.Dir, m) }, Log: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	cfg.Endpoint.ServeAndForget(s.handle)
	return s, nil
}

// handle answers a request after its turn has come.
func (s *Storage) handle(ctx context.Context, request []byte) ([]byte, error) {
	if s.cfg.Turn != nil {
		done, err := s.cfg.Turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return s.node.Handle(ctx, request)
}

// role returns the role of the caller in the region.
func (c *StorageConfig) role(ctx context.Context) region.Role {
	if c.Asker == nil {
		return region.RoleServer
	}
	a := c.Asker(ctx)
	return a.role()
}

// Run repairs the region and compacts the disk until ctx ends.
func (s *Storage) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.node.Run(ctx) })
	running.Go(func() { s.disk.Run(ctx) })
	running.Wait()
}

// Close ends the access by the network first, so that no call uses a closed store.
func (s *Storage) Close() error {
	err := s.cfg.Endpoint.Close()
	if s.node != nil {
		s.node.Close()
	}
	if s.disk != nil {
		err = errors.Join(err, s.disk.Close())
	}
	return err
}

// Stats returns the numbers of blocks and bytes on the disk.
func (s *Storage) Stats() (disk.Stats, error) { return s.disk.Stats() }

// Metrics reports the metrics of the disk and of the node of the region.
func (s *Storage) Metrics(report metrics.Report) {
	add := func(n metrics.Name, value uint64) { report.Value(n, float64(value), s.cfg.Region, s.cfg.Server) }
	if stats, err := s.disk.Stats(); err == nil {
		add(metrics.StorageBlocks, stats.Blocks)
		add(metrics.StorageLiveBytes, stats.LiveBytes)
		add(metrics.StorageDeadBytes, stats.DeadBytes)
		add(metrics.StorageCompactedBytes, stats.MovedBytes)
	}
	if total, free, err := s.disk.Usage(); err == nil {
		add(metrics.StorageDiskBytes, total)
		add(metrics.StorageFreeBytes, free)
	}
	status := s.node.Status()
	add(metrics.StorageRingVersion, status.Members.Version)
	add(metrics.StorageServersDown, uint64(len(status.Down)))
	add(metrics.StorageMissingCopies, status.Repair.Last.Missing)
	add(metrics.StorageLostBlocks, status.Repair.Last.Lost)
	add(metrics.StorageFetchedBlocks, status.Repair.Fetched)
	add(metrics.StorageFetchedBytes, status.Repair.FetchedBytes)
	add(metrics.StorageHandedBackBlocks, status.Repair.HandedBack)
	add(metrics.StorageReleasedCopies, status.Repair.Dropped)
	add(metrics.StorageScrubbedBlocks, status.Scrub.Blocks)
	add(metrics.StorageScrubbedBytes, status.Scrub.Bytes)
	add(metrics.StorageCorruptFixed, status.Scrub.Fixed)
	add(metrics.StorageCorruptLeft, status.Scrub.Unfixed)
}

// Status returns the state of the node of the region.
func (s *Storage) Status() region.Status { return s.node.Status() }
