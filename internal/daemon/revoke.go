package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
)

// description returns this server's description of the cluster for other processes.
func (s *Server) description(ctx context.Context) Description {
	d := s.known.current.Load()
	delegates := s.delegates.partitions(ctx, d.cluster)
	return Description{
		Server: s.cfg.Name, Region: d.cluster.Server(s.cfg.Name).Region, Version: d.spec.Version, Spec: d.published(), Revoked: d.spec.Revoked,
		InMemory: s.cfg.Network != nil, Delegates: delegates.all, NumberedGrants: delegates.numbered,
	}
}

// adopt stores a description if it is newer, reports whether it was, and ends the connections of the
// processes that it revokes.
func (s *Server) adopt(d *description) (newer bool, err error) {
	newer, err = s.known.offer(d)
	if !newer || s.credentials == nil {
		return newer, err
	}
	for now := s.known.current.Load(); ; {
		s.credentials.SetRevoked(revocations(now))
		latest := s.known.current.Load()
		if latest == now {
			break
		}
		now = latest // another call was faster
	}
	if s.transport != nil {
		s.transport.Recheck()
	}
	return newer, err
}

func revocations(d *description) (all []identity.Revocation) {
	for _, r := range d.spec.Revoked {
		all = append(all, identity.Revocation{Role: identity.Role(r.Role), Name: r.Name, At: r.At})
	}
	return all
}

// revoke makes the certificates of a process invalid, or takes that back.
func (s *Server) revoke(ctx context.Context, q *Request) (Changed, error) {
	r := topology.Revocation{Role: string(q.Role), Name: q.Server, At: time.Now().UTC().Round(0)}
	switch {
	case s.credentials == nil:
		return Changed{}, errors.New("the cluster has no certificates: nothing can be revoked")
	case q.Role != identity.Server && q.Role != identity.Admin && q.Role != identity.Client:
		return Changed{}, fmt.Errorf("role %q: give client, admin or server", q.Role)
	case identity.CheckName(q.Server) != nil:
		return Changed{}, identity.CheckName(q.Server)
	case q.Role == identity.Server && q.Server == s.cfg.Name && !q.Undo:
		return Changed{}, errors.New("a server does not revoke its own certificate: ask another server")
	}
	return s.change(ctx, func(spec *topology.Spec, _ *topology.Cluster) error {
		if !q.Undo {
			spec.Revoke(r)
			return nil
		}
		if !spec.Pardon(r.Role, r.Name) {
			return fmt.Errorf("%s %s is not revoked", r.Role, r.Name)
		}
		return nil
	})
}
