package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/topology"
)

// errRegistryLost means that the registry has lost data: it was emptied, was restored from a backup, or is
// another registry. It may lack marks of processes, and may assign numbers of processes twice. Therefore no
// new process may start.
var errRegistryLost = errors.New("the registry has lost data of the cluster: is it another etcd, empty, or restored from a backup? Put back the newest copy that a server has: docs/operations.md")

// checkVersion fails with errRegistryLost if the description in the registry has a lower version than the one
// that this process knows. version is the version of the description in the registry, 0 if there is none.
func (s *Server) checkVersion(version uint64) error {
	if now := s.known.current.Load(); now != nil && version < now.spec.Version {
		return fmt.Errorf("%w It has version %d, and this server knows version %d, which is in %s", errRegistryLost, version, now.spec.Version, filepath.Join(s.dir, specFile))
	}
	return nil
}

// createCluster creates the cluster if the registry has no description, and returns its description. If
// another server answers that belongs to a cluster, the registry has lost that cluster, and createCluster
// fails: a new description would use process numbers of the lost cluster again.
func (s *Server) createCluster(ctx context.Context) (document registry.Document, err error) {
	if err := s.checkVersion(0); err != nil {
		return document, err
	}
	if err := s.checkNoCluster(ctx); err != nil {
		if document, loadErr := s.registry.Load(ctx); loadErr == nil {
			return document, nil // another server was faster
		}
		return document, err
	}
	spec := s.cfg.File.Spec
	spec.Version = 1
	if spec.Restored, err = readRestored(s.dir); err != nil {
		return document, err
	}
	if spec.Added, err = readRestoredPartitions(s.dir); err != nil {
		return document, err
	}
	spec.Created = time.Now().UTC().Round(0) // to the nanosecond: it distinguishes this cluster from all others
	document, created, err := signature{s}.bootstrap(ctx, spec)
	if created {
		s.logger.Info("the cluster was created: its description is in the registry", "cluster", spec.Name)
	}
	return document, err
}

// checkNoCluster fails if another server of the file answers: that server belongs to a cluster.
func (s *Server) checkNoCluster(ctx context.Context) error {
	var others []topology.Server
	for name, address := range s.cfg.File.Addresses {
		if name != s.cfg.Name {
			others = append(others, topology.Server{Name: name, Address: address})
		}
	}
	answers, err := s.askPeers(ctx, others)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Error == "" {
			return fmt.Errorf("%w It has no description, and server %s knows version %d", errRegistryLost, a.Server.Name, a.Status.Version)
		}
	}
	return nil
}

// memory gives access to the marks of the registry, after a check that the registry has lost no data.
type memory struct{ *Server }

// Mark records permanently that a process sends messages.
func (m memory) Mark(ctx context.Context, name string) error { return m.registry.Mark(ctx, name) }

// Marked reports whether a process is marked.
func (m memory) Marked(ctx context.Context, name string) (bool, error) {
	document, err := m.registry.Load(ctx)
	if errors.Is(err, registry.ErrNotFound) {
		err = errRegistryLost
	}
	if err != nil {
		return false, err
	}
	d, err := m.read(document)
	if err == nil {
		err = m.checkVersion(d.spec.Version)
	}
	if err != nil {
		return false, err
	}
	return m.registry.Marked(ctx, name)
}

// markAgain restores the marks of processes in a registry that has lost them, for example because an operator
// has put back only the description. Without the marks a server with a lost disk would take its processes for
// new ones (D1). If the registry lacks the mark of a process of this server, it has lost all marks, so
// markAgain marks all processes of the description. A process that never ran is then replaced like one with a
// lost disk.
func (m memory) markAgain(ctx context.Context) error {
	plan := m.known.current.Load().cluster
	for _, p := range plan.Partitions {
		for _, r := range p.Replicas {
			if r.Server != m.cfg.Name {
				continue
			}
			was, marked, err := readProcess(filepath.Join(m.dir, PartitionDir(p.ID), processFile))
			if err != nil || was != r.Process || !marked {
				continue // settle deals with it
			}
			has, err := m.registry.Marked(ctx, markOf(r.Process))
			if err != nil {
				return err
			}
			if !has {
				return m.markAll(ctx, plan)
			}
		}
	}
	return nil
}

// markAll marks all processes of the description.
func (m memory) markAll(ctx context.Context, plan *topology.Cluster) error {
	m.logger.Warn("the registry has lost the marks of processes: they are set again")
	for _, p := range plan.Partitions {
		for _, r := range p.Replicas {
			if err := m.registry.Mark(ctx, markOf(r.Process)); err != nil {
				return err
			}
		}
	}
	return nil
}
