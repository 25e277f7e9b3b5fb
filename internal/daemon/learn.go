package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
)

// patience is the time between two attempts of an operation that needs the registry or another server.
const patience = time.Second

// learn finds the newest description of the cluster: from the registry, or, if the registry is unavailable,
// from the copy in the data directory. A server without a copy waits for the registry.
func (s *Server) learn(ctx context.Context) (*description, error) {
	last, err := loadCopy(s.dir)
	if err != nil {
		return nil, err
	}
	if last != nil {
		if err := s.mustHave(last); err != nil {
			return nil, err
		}
		if _, err := s.adopt(last); err != nil {
			return nil, err
		}
	}
	for logged := false; ; logged = true {
		d, err := s.ask(ctx)
		switch {
		case err == nil:
			return d, s.take(d)
		case last != nil && (errors.Is(err, errRegistryLost) || errors.Is(err, identity.ErrSignature)):
			s.logger.Error("the registry has lost the cluster, or was changed: the server starts with its copy of the description", "version", last.spec.Version, "error", err)
			return last, nil
		case !errors.Is(err, registry.ErrUnavailable) || ctx.Err() != nil:
			return nil, err
		case last != nil:
			s.logger.Warn("the registry is unavailable: the server starts with its copy of the description", "version", last.spec.Version, "error", err)
			return last, nil
		case !logged:
			s.logger.Warn("the registry is unavailable, and this server has no copy of the description: it waits for the registry", "error", err)
		}
		if err := pause.For(ctx, patience); err != nil {
			return nil, err
		}
	}
}

// ask returns the registry's description. It puts one there if there is none, and corrects this server's
// address in it.
func (s *Server) ask(ctx context.Context) (*description, error) {
	document, err := s.registry.Load(ctx)
	if errors.Is(err, registry.ErrNotFound) {
		document, err = s.createCluster(ctx)
	}
	if err != nil {
		return nil, err
	}
	d, err := s.read(document)
	if err == nil {
		err = s.checkVersion(d.spec.Version)
	}
	if err == nil {
		err = signature{s}.signAgain(ctx, document, d)
	}
	if err != nil {
		return nil, err
	}
	asked := s.cfg.File.Spec
	if err := asked.Adopt(d.spec); err != nil {
		return nil, fmt.Errorf("the cluster file and the registry differ in what cannot be changed: %w", err)
	}
	if err := s.mustHave(d); err != nil {
		return nil, err
	}
	address, named := s.cfg.File.Addresses[s.cfg.Name]
	if !named || address == d.spec.Addresses[s.cfg.Name] {
		return d, nil
	}
	if err := s.checkAlone(ctx, d); err != nil {
		return nil, err
	}
	s.logger.Info("this server has moved to another address", "from", d.spec.Addresses[s.cfg.Name], "to", address)
	return s.edit(ctx, func(spec *topology.Spec, _ *topology.Cluster) error {
		spec.Relocate(s.cfg.Name, address)
		return nil
	})
}

func (s *Server) mustHave(d *description) error {
	if d.cluster.Server(s.cfg.Name) != nil {
		return nil
	}
	var names []string
	for _, o := range d.cluster.Servers {
		names = append(names, o.Name)
	}
	return fmt.Errorf("cluster %q has no server of this name, only %v: 'globalfs admin join' makes room for more", d.spec.Name, names)
}

// take adopts d and saves a copy, if d is newer than the known description.
func (s *Server) take(d *description) error {
	newer, err := s.adopt(d)
	if err != nil || !newer {
		return err
	}
	return saveCopy(s.dir, d)
}

// settle prepares the directories of replicas (D1), and returns the description that they match. It replaces
// replicas with a lost disk.
func (s *Server) settle(ctx context.Context) (*description, error) {
	var reason error // of the last failure
	for {
		d, err := s.settleOnce(ctx)
		switch {
		case ctx.Err() != nil && reason != nil: // the end of ctx itself causes errors of other servers; report the earlier reason
			return nil, errors.Join(ctx.Err(), reason)
		case !errors.Is(err, registry.ErrUnavailable) && !errors.Is(err, errNoMajority) || ctx.Err() != nil:
			return d, err
		case reason == nil:
			s.logger.Warn("a new replica cannot start on this server yet: trying again", "error", err)
		}
		reason = err
		if ended := pause.For(ctx, patience); ended != nil {
			return nil, errors.Join(ended, reason)
		}
	}
}

func (s *Server) settleOnce(ctx context.Context) (*description, error) {
	for {
		d := s.known.current.Load()
		if s.server != nil {
			if err := s.server.Leave(d.cluster); err != nil {
				return nil, err
			}
		}
		lost, err := settle(ctx, s.dir, s.cfg.Name, d, memory{s})
		if err != nil || len(lost) == 0 {
			return d, err
		}
		d, err = s.edit(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
			var gone []topology.Replica // the other lost ones are already replaced
			for _, r := range lost {
				if plan.Hosts()[r.Process] != nil {
					gone = append(gone, r)
				}
			}
			if err := s.mayGo(ctx, plan, gone, takingPart); err != nil {
				return fmt.Errorf("%s has not the state of all its replicas, as if a disk was lost, or is not mounted: %w", s.dir, err)
			}
			for _, r := range gone {
				spec.Replace(plan, r.Process, "")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, r := range lost {
			s.logger.Warn("a replica's disk is gone: another process takes its place here and takes over the state of the others", "process", r.Process)
		}
		if err := s.take(d); err != nil {
			return nil, err
		}
	}
}

// introduce announces this storage server to a member of the region before its first start (D4).
func (s *Server) introduce(ctx context.Context) error {
	d, self := s.known.current.Load(), s.self()
	if _, err := os.Stat(filepath.Join(s.dir, "blocks")); err == nil || self.State == topology.StorageLeft || d.cluster.StorageVersion(self.Region) == 1 {
		return nil
	}
	endpoint := s.endpoint(self.Storage)
	defer func() { _ = endpoint.Close() }() // nothing uses it
	admin := region.NewAdmin(endpoint, patience)
	for logged := false; ; logged = true {
		err := sendMembers(ctx, admin, d, self)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !logged {
			s.logger.Warn("no other storage server of the region can be informed of this new one: trying again", "error", err)
		}
		if err := pause.For(ctx, patience); err != nil {
			return err
		}
	}
}

// sendMembers sends the list of members of a region to one of its other storage servers.
func sendMembers(ctx context.Context, admin *region.Admin, d *description, self *topology.Server) error {
	var errs []error
	for _, other := range d.cluster.Storage(self.Region) {
		if other.Name == self.Name {
			continue
		}
		err := admin.SetMembers(ctx, other.Storage, server.Members(d.cluster, self.Region))
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// watch receives changes from the registry until ctx ends.
func (s *Server) watch(ctx context.Context, stop context.CancelCauseFunc) {
	s.registry.Watch(ctx, func(document registry.Document) {
		d, err := s.read(document)
		if err == nil {
			err = s.mustHave(d)
		}
		if err != nil {
			s.logger.Error("the description of the cluster in the registry is unusable: continuing with the last usable one", "error", err)
			return
		}
		if err := s.adoptNewer(d); err != nil {
			stop(err)
		}
	})
}

// probeEvery is the time between two reads of the registry. They detect an unavailable registry, which a
// watch may not report.
const probeEvery = 5 * time.Second

// probe records for the status whether the registry can be reached, until ctx ends.
func (s *Server) probe(ctx context.Context) {
	for {
		document, err := s.registry.Load(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = signature{s}.checkDocument(document)
		}
		if err == nil {
			err = memory{s}.markAgain(ctx)
		}
		if err == nil {
			s.apart.Store(nil)
		} else {
			text := err.Error()
			s.apart.Store(&text)
		}
		if pause.For(ctx, probeEvery) != nil {
			return
		}
	}
}

// adoptNewer adopts a description, and triggers its application if it is newer.
func (s *Server) adoptNewer(d *description) error {
	newer, err := s.adopt(d)
	if err != nil || !newer {
		return err
	}
	select {
	case s.unapplied <- struct{}{}:
	default:
	}
	return nil
}

// follow applies new descriptions until ctx ends.
func (s *Server) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.unapplied:
		}
		for err := s.apply(ctx); err != nil && ctx.Err() == nil; err = s.apply(ctx) {
			s.logger.Warn("a change of the cluster cannot be followed yet: trying again", "error", err)
			if pause.For(ctx, patience) != nil {
				return
			}
		}
	}
}

// apply changes this server to match the newest description.
func (s *Server) apply(ctx context.Context) error {
	if err := saveCopy(s.dir, s.known.current.Load()); err != nil {
		return err
	}
	d, err := s.settle(ctx) // a newer one that arrives meanwhile is applied next
	if err != nil {
		return err
	}
	if err := s.server.Update(ctx, d.cluster); err != nil {
		return err
	}
	s.work.client.Update(d.cluster)
	s.applied.Store(d.spec.Version)
	s.logger.Info("following a change of the cluster", "version", d.spec.Version)
	return nil
}

// retire removes this leaving storage server from its region's ring once it has no blocks and all others know
// that it leaves.
func (s *Server) retire(ctx context.Context) {
	for pause.For(ctx, patience) == nil {
		self := s.self()
		if self == nil || self.State != topology.StorageLeaving || !s.drained(ctx, self) {
			continue
		}
		d, err := s.edit(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
			if plan.Server(s.cfg.Name).State == topology.StorageLeaving {
				spec.LeftStorage(s.cfg.Name)
			}
			return nil
		})
		if err == nil {
			err = s.adoptNewer(d)
		}
		if err != nil {
			s.logger.Warn("this server has no blocks any more, but cannot be taken out of its region's ring: it is tried again", "error", err)
			continue
		}
		s.logger.Info("this server's storage has left: the others of its region have all its blocks")
	}
}

// tidyEvery is the time between two searches for files of replaced processes.
const tidyEvery = 10 * time.Second

// tidy deletes the files of replaced processes on this server once their successors take part.
func (s *Server) tidy(ctx context.Context) {
	for pause.For(ctx, tidyEvery) == nil {
		bounded, cancel := context.WithTimeout(ctx, statusPatience)
		for _, r := range s.server.Replicas(bounded) {
			if !r.Seated {
				continue
			}
			if err := clearAside(s.dir, r.Partition); err != nil {
				s.logger.Warn("the files of a replaced replica cannot be deleted: trying again", "partition", r.Partition, "error", err)
			}
		}
		cancel()
	}
}

// drained reports whether this server has no blocks any more, and all others of the region know that it
// leaves and do not rely on it.
func (s *Server) drained(ctx context.Context, self *topology.Server) bool {
	plan := s.known.current.Load().cluster
	admin := region.NewAdmin(s.work.caller, storagePatience)
	for _, o := range plan.Storage(self.Region) {
		status, err := admin.Status(ctx, o.Storage)
		if err != nil || status.Members.Version < plan.StorageVersion(self.Region) || o.Name == self.Name && !status.Drained {
			return false
		}
	}
	return true
}

// storagePatience is the time limit for the answer of a storage server: its disk may hang.
const storagePatience = 5 * time.Second
