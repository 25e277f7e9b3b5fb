package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
)

// blockTimeout is how long another storage node may take for one block before its turn
// goes to the next one.
const blockTimeout = 3 * time.Second

// storage is the storage node of a server: its disk, its part of the region's DHT, and its access to the network.
type storage struct {
	region   topology.Region
	server   string
	endpoint transport.Endpoint
	disk     *block.Segments
	node     *block.Node
}

// startStorage opens the storage node and answers calls to it.
func (s *Server) startStorage(self *topology.Server) (err error) {
	st := &storage{region: self.Region, server: self.Name, endpoint: s.cfg.Endpoint(self.Storage)}
	s.storage = st
	disk := block.DefaultConfig(filepath.Join(s.cfg.Dir, "blocks"))
	disk.NoSync = s.cfg.Durability != wal.Sync
	disk.Log = s.cfg.Logger
	if st.disk, err = block.OpenSegments(disk); err != nil {
		return err
	}
	members, err := s.members(self.Region)
	if err != nil {
		return err
	}
	st.node, err = block.NewNode(block.NodeConfig{
		Self: self.Storage, Members: members, Copies: s.cfg.Cluster.Copies, Disk: st.disk,
		Peers: st.endpoint, CallTimeout: blockTimeout, Healing: s.cfg.Healing, Save: s.saveMembers, Log: s.cfg.Logger,
	})
	if err != nil {
		return err
	}
	st.endpoint.Serve(st.node.Handle)
	return nil
}

// run keeps the region whole and the disk compact until ctx ends.
func (st *storage) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { st.node.Run(ctx) })
	running.Go(func() { st.disk.Run(ctx) })
	running.Wait()
}

// close ends network access first, so that nothing is asked of a store that is closed.
func (st *storage) close() error {
	err := st.endpoint.Close()
	if st.node != nil {
		st.node.Close()
	}
	if st.disk != nil {
		err = errors.Join(err, st.disk.Close())
	}
	return err
}

// Metrics tells what there is of this server, and what its storage node has done.
func (s *Server) Metrics(report metrics.Report) {
	if s.storage != nil {
		s.storage.metrics(report)
	}
}

func (st *storage) metrics(report metrics.Report) {
	tell := func(n metrics.Name, value uint64) { report(n, float64(value), string(st.region), st.server) }
	if stats, err := st.disk.Stats(); err == nil {
		tell(metrics.StorageBlocks, stats.Blocks)
		tell(metrics.StorageLiveBytes, stats.LiveBytes)
		tell(metrics.StorageDeadBytes, stats.DeadBytes)
		tell(metrics.StorageCompactedBytes, stats.MovedBytes)
	}
	if total, free, err := st.disk.Usage(); err == nil {
		tell(metrics.StorageDiskBytes, total)
		tell(metrics.StorageFreeBytes, free)
	}
	status := st.node.Status()
	tell(metrics.StorageRingVersion, status.Members.Version)
	tell(metrics.StorageServersDown, uint64(len(status.Down)))
	tell(metrics.StorageMissingCopies, status.Repair.Last.Missing)
	tell(metrics.StorageFetchedBlocks, status.Repair.Fetched)
	tell(metrics.StorageFetchedBytes, status.Repair.FetchedBytes)
	tell(metrics.StorageHandedBackBlocks, status.Repair.HandedBack)
	tell(metrics.StorageReleasedCopies, status.Repair.Dropped)
	tell(metrics.StorageScrubbedBlocks, status.Scrub.Blocks)
	tell(metrics.StorageScrubbedBytes, status.Scrub.Bytes)
	tell(metrics.StorageCorruptFixed, status.Scrub.Fixed)
	tell(metrics.StorageCorruptLeft, status.Scrub.Unfixed)
}

// SetMembers tells the storage node newer members of its region: the others learn them from it.
func (s *Server) SetMembers(ctx context.Context, m block.Members) error {
	if s.storage == nil {
		return fmt.Errorf("server %s has left the storage of its region", s.cfg.Name)
	}
	return s.storage.node.SetMembers(ctx, m)
}

// StorageStatus gives the state of the storage node; false if the server has none.
func (s *Server) StorageStatus() (block.Status, bool) {
	if s.storage == nil {
		return block.Status{}, false
	}
	return s.storage.node.Status(), true
}

// StorageStats counts what is on the disk of the storage node.
func (s *Server) StorageStats() (block.Stats, error) {
	if s.storage == nil {
		return block.Stats{}, nil
	}
	return s.storage.disk.Stats()
}
