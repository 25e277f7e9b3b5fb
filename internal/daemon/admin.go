package daemon

import (
	"context"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/topology"
)

// change changes the cluster in the registry and in this process. The other servers learn of it from the
// registry.
func (s *Server) change(ctx context.Context, edit func(*topology.Spec, *topology.Cluster) error) (Changed, error) {
	d, err := s.edit(ctx, edit)
	if err != nil {
		return Changed{}, err
	}
	return Changed{Version: d.spec.Version}, s.adoptNewer(d)
}

// join adds a new server to the description.
func (s *Server) join(ctx context.Context, q *Request) (Changed, error) {
	if err := topology.CheckAddress(q.Address); err != nil {
		return Changed{}, fmt.Errorf("address %w", err)
	}
	var name string
	c, err := s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		if i := slices.IndexFunc(plan.Servers, func(o topology.Server) bool { return o.Address == q.Address }); i >= 0 {
			return fmt.Errorf("address %s is that of server %s", q.Address, plan.Servers[i].Name)
		}
		if _, err := spec.JoinStorage(plan, q.Region); err != nil {
			return err
		}
		last := &spec.StorageChanges[len(spec.StorageChanges)-1]
		last.Address, name = q.Address, last.Server
		return nil
	})
	c.Server = name
	switch {
	case s.cfg.Registry != nil:
		c.Notes = []string{"it is started by the process that runs the other servers"}
	case s.credentials != nil:
		c.Notes = []string{fmt.Sprintf("make its certificate with 'globalfs certs server %s', and start it with 'globalfs server %s' on its host", name, name)}
	default:
		c.Notes = []string{fmt.Sprintf("start it with 'globalfs server %s' on its host", name)}
	}
	return c, err
}

// drain moves all replicas and blocks away from a server.
func (s *Server) drain(ctx context.Context, q *Request) (Changed, error) {
	var notes []string
	c, err := s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		notes = nil
		if err := s.mayGo(ctx, plan, plan.ReplicasOn(q.Server), takingPart); err != nil {
			return err
		}
		for i := range plan.Partitions {
			p := &plan.Partitions[i]
			for _, r := range p.Replicas {
				if r.Server != q.Server {
					continue
				}
				to, err := roomFor(plan, p, r.Region)
				if err != nil {
					return err
				}
				spec.Replace(plan, r.Process, to)
				notes = append(notes, fmt.Sprintf("the replica of partition %d (%s) moves to %s", p.ID, p.Path, to))
			}
		}
		return spec.LeaveStorage(plan, q.Server)
	})
	c.Notes = notes
	return c, err
}

// roomFor selects the server of a region for a replica of p: of those without one, the server with the fewest
// replicas.
func roomFor(plan *topology.Cluster, p *topology.Partition, region topology.Region) (string, error) {
	best, fewest := "", 0
	for _, server := range plan.Storage(region) {
		has := slices.ContainsFunc(p.Replicas, func(r topology.Replica) bool { return r.Server == server.Name })
		if has || server.State != topology.StorageMember {
			continue
		}
		if n := len(plan.ReplicasOn(server.Name)); best == "" || n < fewest {
			best, fewest = server.Name, n
		}
	}
	if best == "" {
		return "", fmt.Errorf("no other server of region %s is without a replica of partition %d (%s): let a new server join first, with 'globalfs admin join'", region, p.ID, p.Path)
	}
	return best, nil
}

// remove removes a permanently lost server from the description.
func (s *Server) remove(ctx context.Context, q *Request) (Changed, error) {
	alive, err := s.registry.Alive(ctx)
	if err != nil {
		return Changed{}, err
	}
	for _, other := range alive {
		if other.Name == q.Server {
			return Changed{}, fmt.Errorf("server %s is live: drain it, or stop it first (and wait until its lease has ended)", q.Server)
		}
	}
	if server := s.known.current.Load().cluster.Server(q.Server); server != nil {
		answers, err := s.askPeers(ctx, []topology.Server{*server})
		if err != nil {
			return Changed{}, err
		}
		if answers[0].Error == "" {
			return Changed{}, fmt.Errorf("server %s is cut off from the registry, but answers at %s: drain it, or stop it first", q.Server, server.Address)
		}
	}
	return s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		if on := plan.ReplicasOn(q.Server); len(on) > 0 {
			return fmt.Errorf("server %s has replicas of %d partitions: replace them first, so that each partition has a majority meanwhile", q.Server, len(on))
		}
		server := plan.Server(q.Server)
		if server != nil && server.State == topology.StorageLeaving {
			spec.LeftStorage(q.Server)
			return nil
		}
		if err := spec.LeaveStorage(plan, q.Server); err != nil {
			return err
		}
		spec.LeftStorage(q.Server)
		return nil
	})
}

// replace moves a replica.
func (s *Server) replace(ctx context.Context, q *Request) (Changed, error) {
	var notes []string
	c, err := s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		if int(q.Partition) >= len(plan.Partitions) {
			return fmt.Errorf("there is no partition %d", q.Partition)
		}
		p := &plan.Partitions[q.Partition]
		i := slices.IndexFunc(p.Replicas, func(r topology.Replica) bool { return r.Server == q.Server })
		if i < 0 {
			return fmt.Errorf("server %q has no replica of partition %d", q.Server, p.ID)
		}
		to := q.To
		if to == "" {
			var err error
			if to, err = roomFor(plan, p, p.Replicas[i].Region); err != nil {
				return err
			}
		}
		if server := plan.Server(to); server == nil || server.Region != p.Replicas[i].Region || server.State != topology.StorageMember {
			return fmt.Errorf("server %q cannot have the replica: name a server of region %s that is not leaving", to, p.Replicas[i].Region)
		}
		part := takingPart
		if q.AcceptLoss {
			part = isSeated
		}
		if err := s.mayGo(ctx, plan, p.Replicas[i:i+1], part); err != nil {
			return err
		}
		process := spec.Replace(plan, p.Replicas[i].Process, to)
		notes = []string{fmt.Sprintf("the replica of partition %d (%s) on %s is replaced by process %d on %s", p.ID, p.Path, q.Server, process, to)}
		return nil
	})
	c.Notes = notes
	return c, err
}
