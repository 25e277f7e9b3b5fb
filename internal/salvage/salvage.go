package salvage

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/globalfs/globalfs/internal/backup"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// Options of Open.
type Options struct {
	Dirs     []string        // data directories of servers, or directories that hold these
	Scratch  string          // directory for temporary files; empty: the system's
	Progress *progress.Meter // nil: the progress is not shown
	// Backup has the states of partitions of which no replica is left; nil: there is none. BackupID is the id
	// of the backup in it; empty: the newest.
	Backup   *backup.Repository
	BackupID string
	// Objects opens the regions' stores in object storage, if the blocks are there; end closes them.
	Objects func(ctx context.Context, plan *topology.Cluster) (regions map[topology.Region]block.Store, end func() error, err error)
}

// Salvage is a recovered cluster. It implements backup.Cluster.
type Salvage struct {
	// Statement describes the recovered state and the possible loss.
	Statement Statement

	options Options
	scratch string
	servers []*daemon.StoppedServer // by name
	plan    *topology.Cluster       // the newest
	name    string
	unlocks []func() error
	parts   []*part // by partition
	blocks  blocks
}

// Open reads the data directories of stopped servers, and recovers the state of all partitions in temporary
// files. The directories stay as they are, and their servers cannot start until Close.
func Open(ctx context.Context, o Options) (_ *Salvage, err error) {
	s := &Salvage{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.scratch, err = os.MkdirTemp(o.Scratch, "globalfs-recover-"); err != nil {
		return nil, err
	}
	if err := s.readServers(); err != nil {
		return nil, err
	}
	for i := range s.plan.Partitions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.Progress.Begin("reading the replicas of partition %d", i)
		p, err := s.readPartition(ctx, &s.plan.Partitions[i])
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, p)
	}
	if err := s.state(); err != nil {
		return nil, err
	}
	o.Progress.Begin("making one sound tree of all partitions")
	if err := s.recover(); err != nil {
		return nil, err
	}
	o.Progress.Begin("looking for the blocks of all files")
	return s, s.findBlocks(ctx)
}

// Close deletes the temporary files, and lets the servers start. A second call does nothing.
func (s *Salvage) Close() error {
	var errs []error
	for _, p := range s.parts {
		errs = append(errs, p.close())
	}
	errs = append(errs, s.blocks.close())
	for _, unlock := range s.unlocks {
		errs = append(errs, unlock())
	}
	if s.scratch != "" {
		errs = append(errs, os.RemoveAll(s.scratch))
	}
	s.parts, s.blocks, s.unlocks, s.scratch = nil, blocks{}, nil, ""
	return errors.Join(errs...)
}

// readServers reads the directories, and takes the newest description of the cluster.
func (s *Salvage) readServers() error {
	servers, newest, unlock, err := daemon.ReadAllStopped(s.options.Dirs)
	if err != nil {
		return err
	}
	s.servers, s.plan, s.name = servers, newest.Plan, newest.Spec.Name
	s.unlocks = append(s.unlocks, unlock)
	return nil
}

// server returns the directory of a server; nil: it is not there.
func (s *Salvage) server(name string) *daemon.StoppedServer {
	i := slices.IndexFunc(s.servers, func(x *daemon.StoppedServer) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return s.servers[i]
}
