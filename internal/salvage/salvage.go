package salvage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	Progress *progress.Meter // nil: nobody looks
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
	dirs, err := serverDirs(s.options.Dirs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		server, unlock, err := daemon.ReadStopped(dir)
		if err != nil {
			return err
		}
		s.unlocks = append(s.unlocks, unlock)
		for _, other := range s.servers {
			switch {
			case other.Identity != server.Identity:
				return fmt.Errorf("%s and %s are of different clusters: give the directories of one", other.Dir, dir)
			case other.Name == server.Name:
				return fmt.Errorf("%s and %s are both of server %s: give the newer one only", other.Dir, dir, server.Name)
			}
		}
		s.servers = append(s.servers, server)
	}
	newest := slices.MaxFunc(s.servers, func(a, b *daemon.StoppedServer) int { return cmp.Compare(a.Spec.Version, b.Spec.Version) })
	s.plan, s.name = newest.Plan, newest.Spec.Name
	slices.SortFunc(s.servers, func(a, b *daemon.StoppedServer) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// serverDirs finds the data directories of servers.
func serverDirs(given []string) (dirs []string, err error) {
	for _, dir := range given {
		if daemon.HasServer(dir) {
			dirs = append(dirs, dir)
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if below := filepath.Join(dir, e.Name()); e.IsDir() && daemon.HasServer(below) {
				dirs, found = append(dirs, below), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s is neither the data directory of a server nor holds one: name directories that the servers have written", dir)
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("no data directory is given")
	}
	return dirs, nil
}

// server returns the directory of a server; nil: it is not there.
func (s *Salvage) server(name string) *daemon.StoppedServer {
	i := slices.IndexFunc(s.servers, func(x *daemon.StoppedServer) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return s.servers[i]
}
