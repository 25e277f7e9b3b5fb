package route

import (
	"context"
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Cluster returns the description of the cluster that the client uses.
func (r *Router) Cluster() *topology.Cluster { return r.cluster.Load() }

// Partitions returns the number of partitions.
func (r *Router) Partitions() int { return len(r.partitions.All()) }

// SetCluster replaces the description of the cluster, for example after the replacement of replicas. Calls
// under way continue, and use the new replicas in their next round. The cluster may have more partitions than
// before.
func (r *Router) SetCluster(cluster *topology.Cluster) {
	was := len(r.partitions.All())
	invariant.Check(len(cluster.Partitions) >= was, "a cluster of %d partitions now has %d", was, len(cluster.Partitions))
	r.setCluster(cluster)
	if len(cluster.Partitions) > was {
		r.learned.raise()
	}
}

func (r *Router) setCluster(cluster *topology.Cluster) {
	err := r.partitions.Grow(len(cluster.Partitions), func(i int) (*partition, error) {
		return newPartition(&r.cfg, &cluster.Partitions[i], r.net), nil
	})
	invariant.Check(err == nil, "partitions of a router: %v", err)
	r.cluster.Store(cluster)
	for i, p := range r.partitions.All() {
		if now := cluster.Partitions[i].Replicas; !sameReplicas(p.replicas.Load().all, now) {
			p.replicas.Store(newReplicas(r.cfg.Region, now))
		}
	}
}

// sameReplicas reports whether a and b have the same replicas, in any order.
func sameReplicas(a, b []topology.Replica) bool {
	return len(a) == len(b) && !slices.ContainsFunc(b, func(r topology.Replica) bool { return !slices.Contains(a, r) })
}

// Status returns the status of the nearest replica of a partition that answers.
func (r *Router) Status(ctx context.Context, partition uint16) (ask.Status, error) {
	p, err := r.partition(partition)
	if err != nil {
		return ask.Status{}, err
	}
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	reply, _, err := p.exchange(ctx, reading, func() ask.Request { return ask.Request{Kind: ask.AskStatus} })
	if err == nil && reply.Status != ask.Answered {
		err = p.refused(&reply)
	}
	if err != nil {
		return ask.Status{}, r.Outcome(err)
	}
	status, err := ask.DecodeStatus(reply.Result)
	return status, r.Outcome(err)
}

// Leader returns the replica of a partition that reports that it leads; 0 if none does.
func (r *Router) Leader(ctx context.Context, partition uint16) multicast.ProcessID {
	p, err := r.partition(partition)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leads := make(chan multicast.ProcessID)
	all := p.replicas.Load().all
	for _, replica := range all {
		r.Go(func(context.Context) {
			leader := multicast.ProcessID(0)
			if p.leads(ctx, replica.Process) {
				leader = replica.Process
			}
			select {
			case leads <- leader:
			case <-ctx.Done():
			}
		})
	}
	for range all {
		select {
		case leader := <-leads:
			if leader != 0 {
				return leader
			}
		case <-ctx.Done():
			return 0
		}
	}
	return 0
}

// leads reports whether a replica of p answers that it leads.
func (p *partition) leads(ctx context.Context, replica multicast.ProcessID) bool {
	reply, err := p.net.send(ctx, replica, &ask.Request{Kind: ask.AskStatus}, firstPatience)
	if err != nil {
		return false
	}
	status, err := ask.DecodeStatus(reply.Result)
	return err == nil && status.Leads
}

// seekLeader finds out which of the nearest replicas leads p. Usually the leader has not changed, and one
// request is enough.
func (p *partition) seekLeader(ctx context.Context) {
	replicas := p.replicas.Load()
	candidates := replicas.candidates()
	for _, i := range candidates {
		if p.leads(ctx, replicas.all[i].Process) {
			replicas.leads(i)
			return
		}
	}
	if len(candidates) > 0 && ctx.Err() == nil {
		replicas.leads(-1)
	}
}
