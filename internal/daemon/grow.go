package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
)

// A partition is added to a running cluster in three changes of the description. Each change is made once all
// servers of the cluster have applied the one before (D8):
//
//	planned   all replicas of all partitions learn of the new group. None of its replicas runs.
//	starting  the new replicas start, with empty stores.
//	active    the partitions of the region order that new directories spread over the new one, too.
//
// So a replica never gets a message of a process that it does not know, and a command never names a partition
// that a party does not know. A server keeps each description on its disk before it applies it, and starts
// with it again. The changes are made by any servers, so that the work continues after any of them has
// stopped; a server that is down delays it until it is back, or removed.

// errAdding means that the requested partition is already being added.
var errAdding = errors.New("it is being added already")

// growPause is the mean time between two checks of the servers while a partition is being added.
const growPause = 2 * time.Second

// growing is the part of a server that adds partitions to the cluster.
type growing struct{ *Server }

// add adds a partition to a region, or to the global level.
func (s growing) add(ctx context.Context, q *Request) (Changed, error) {
	d := s.known.current.Load()
	var note string
	already := func(p *topology.Partition) bool {
		if p == nil || p.Region != q.Region {
			return false
		}
		note = fmt.Sprintf("partition %d (%s) is being added already", p.ID, p.Path)
		return true
	}
	if already(d.cluster.Adding()) {
		return Changed{Version: d.spec.Version, Notes: []string{note}}, nil
	}
	if waits, err := s.notReached(ctx, d, 1); err != nil || waits != "" {
		return Changed{}, errors.Join(err, notNow(waits))
	}
	c, err := s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		if already(plan.Adding()) {
			return errAdding
		}
		p, err := spec.AddPartition(plan, q.Region, q.Servers)
		if err != nil {
			return err
		}
		var on []string
		for _, r := range p.Replicas {
			on = append(on, r.Server)
		}
		note = fmt.Sprintf("partition %d (%s) is being added on %s", p.ID, p.Path, strings.Join(on, ", "))
		return nil
	})
	if errors.Is(err, errAdding) {
		c, err = Changed{Version: s.known.current.Load().spec.Version}, nil
	}
	c.Notes = []string{note}
	return c, err
}

// notNow returns the error of a change for which all servers must be in a certain state.
func notNow(waits string) error {
	if waits == "" {
		return nil
	}
	return fmt.Errorf("all servers must know a new partition before it is used: %s: start it, or remove it with 'globalfs admin remove'", waits)
}

// run makes the next changes of a partition that is being added, until ctx ends.
func (s growing) run(ctx context.Context) {
	for pause.Between(ctx, growPause/2, growPause*3/2) == nil {
		d := s.known.current.Load()
		p := d.cluster.Adding()
		if p == nil {
			s.growth.Store(nil)
			continue
		}
		waits, err := s.next(ctx, d, p)
		if err != nil {
			waits = err.Error()
		}
		if ctx.Err() == nil {
			s.growth.Store(&Growth{Partition: p.ID, State: string(p.State), Waits: waits})
		}
	}
}

// next makes the next change of the partition that is being added, or returns the reason to wait.
func (s growing) next(ctx context.Context, d *description, p *topology.Partition) (waits string, err error) {
	answers, err := s.askPeers(ctx, inUse(d.cluster))
	if err != nil {
		return "", err
	}
	next := topology.PartitionStarted
	waits = notApplied(answers, d.spec.Version)
	if p.State == topology.PartitionStarted {
		next = topology.PartitionActive
		if seated := takingPart(answers); waits == "" {
			for _, r := range p.Replicas {
				if !seated[uint32(r.Process)] {
					waits = fmt.Sprintf("the replica on %s does not take part yet", r.Server)
				}
			}
		}
	}
	if waits != "" {
		return waits, nil
	}
	_, err = s.change(ctx, func(spec *topology.Spec, plan *topology.Cluster) error {
		if now := plan.Adding(); now == nil || now.ID != p.ID || now.State != p.State || spec.Version != d.spec.Version {
			return errAdding // the cluster has changed, so all servers are asked again
		}
		spec.Advance(next)
		return nil
	})
	if errors.Is(err, errAdding) {
		return "", nil
	}
	if err == nil {
		s.logger.Info("a partition is added: all servers have applied a step, and the next one begins", "partition", p.ID, "path", p.Path, "done", p.State)
	}
	return "", err
}

// inUse returns the servers of a cluster that should run.
func inUse(plan *topology.Cluster) []topology.Server {
	return slices.DeleteFunc(slices.Clone(plan.Servers), func(o topology.Server) bool {
		return o.State == topology.StorageLeft && len(plan.ReplicasOn(o.Name)) == 0
	})
}

// notReached returns the reason why not all servers are known to have applied a version of the description;
// empty: all have.
func (s growing) notReached(ctx context.Context, d *description, version uint64) (string, error) {
	answers, err := s.askPeers(ctx, inUse(d.cluster))
	if err != nil {
		return "", err
	}
	return notApplied(answers, version), nil
}

// notApplied names the servers that are not known to have applied a version of the description.
func notApplied(answers []Answer, version uint64) string {
	var silent, old, late []string
	for _, a := range answers {
		switch {
		case a.Error != "":
			silent = append(silent, a.Server.Name)
		case a.Status.Applied == 0:
			old = append(old, a.Server.Name)
		case a.Status.Applied < version:
			late = append(late, a.Server.Name)
		}
	}
	switch {
	case len(silent) > 0:
		return named(silent) + " does not answer"
	case len(old) > 0:
		return named(old) + " runs an older version of globalfs"
	case len(late) > 0:
		return named(late) + " has not applied the last change of the cluster yet"
	}
	return ""
}

// Growth is a partition that is being added, with its progress.
type Growth struct {
	Partition uint16 `json:"partition"`
	State     string `json:"state"`           // planned, starting
	Waits     string `json:"waits,omitempty"` // the condition of the next change
}
