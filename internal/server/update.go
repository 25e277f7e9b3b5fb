package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Update adopts a newer description of the cluster. It starts the replicas that are new on this server, and
// stops those that were replaced. It informs the other replicas of new partitions and of replacements in
// their groups. It passes the new members of the region to the storage server, and stops the storage server
// after it has left the region. The steps are independent: if one fails, Update continues with the next. The
// next call of Update, also with the same description, repeats the failed steps.
func (s *Server) Update(ctx context.Context, plan *topology.Cluster) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.ended() {
		return context.Canceled
	}
	s.plan.Store(plan)
	err := s.updateStorage(ctx, plan)
	s.evictReplaced(plan)
	for p, n := range s.mine(plan) {
		if s.residence(p.ID) == nil && !s.isDamaged(p.ID, p.Replicas[n].Process) {
			err = errors.Join(err, s.moveIn(p, n))
		}
	}
	// The calls run concurrently, because a replica that takes over the state of another one does not answer
	// for a while.
	residences := s.residences()
	errs := make([]error, len(residences))
	var telling sync.WaitGroup
	for i, r := range residences {
		telling.Go(func() { errs[i] = errors.Join(s.tellReplaced(ctx, r, plan), r.tellPartitions(ctx, plan)) })
	}
	telling.Wait()
	return errors.Join(err, errors.Join(errs...))
}

// Leave is the first step of Update: replaced replicas on this server stop and close all their files. Then
// their directories may be prepared for other processes.
func (s *Server) Leave(plan *topology.Cluster) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.ended() {
		return context.Canceled
	}
	s.evictReplaced(plan)
	return nil
}

// evictReplaced stops the replicas that are not on this server in plan. The caller holds changing.
func (s *Server) evictReplaced(plan *topology.Cluster) {
	here := map[uint16]multicast.ProcessID{}
	for p, n := range s.mine(plan) {
		here[p.ID] = p.Replicas[n].Process
	}
	for _, r := range s.residences() {
		if h := r.hosted.Load(); here[h.partition] != h.process {
			s.cfg.Logger.Info("a replica here was replaced by another one: it stops", "server", s.cfg.Name, "partition", h.partition, "process", h.process)
			s.evict(r)
		}
	}
}

// ended reports whether Run has ended or was not called.
func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life == nil || s.life.Err() != nil
}

func (s *Server) residences() (all []*residence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		all = append(all, r)
	}
	return all
}

func (s *Server) residence(partition uint16) *residence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas[partition]
}

func (s *Server) updateStorage(ctx context.Context, plan *topology.Cluster) error {
	self, storage := plan.Server(s.cfg.Name), s.Storage()
	switch {
	case storage == nil:
		return nil
	case self.State != topology.StorageLeft:
		return storage.node.SetMembers(ctx, Members(plan, self.Region))
	}
	s.mu.Lock()
	t := s.storage
	s.storage = nil
	s.mu.Unlock()
	t.stop()
	<-t.done
	return nil
}

// evict stops a replica and waits until it is closed.
func (s *Server) evict(r *residence) {
	r.stop()
	<-r.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := r.hosted.Load().partition; s.replicas[p] == r {
		delete(s.replicas, p)
	}
}

// moveIn starts a new replica on this server.
func (s *Server) moveIn(p *topology.Partition, n int) error {
	incarnation, err := s.nextIncarnation()
	if err == nil {
		err = s.open(p, n, incarnation)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replicas[p.ID]; r != nil { // nil: the replica is damaged
		s.begin(r)
	}
	return nil
}

// tellReplaced informs a replica of replacements in its group that it does not know. A replica that has
// failed learns of them when it restarts.
func (s *Server) tellReplaced(ctx context.Context, r *residence, plan *topology.Cluster) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	h := r.hosted.Load()
	all := plan.Replacements(&plan.Partitions[h.partition])
	if len(all) <= r.replacements {
		return nil
	}
	err := h.driver.Between(ctx, func() {
		for _, replacement := range all[r.replacements:] {
			h.replica.Replace(replacement)
		}
	})
	if err == nil {
		r.replacements = len(all)
	}
	return err
}

// tellPartitions informs a replica of the groups of new partitions, and of the partitions over which its
// region spreads directories. A replica that restarts learns of both from the newest description.
func (r *residence) tellPartitions(ctx context.Context, plan *topology.Cluster) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	h := r.hosted.Load()
	now := partitionsOf(plan, h.partition)
	if now == r.partitions {
		return nil
	}
	var failed error
	err := h.driver.Between(ctx, func() {
		if failed = h.replica.AddGroups(plan.Groups()); failed == nil {
			h.replica.SpreadOver(plan.Shards(plan.Partitions[h.partition].Region))
		}
	})
	if err = errors.Join(err, failed); err == nil {
		r.partitions = now
	}
	return err
}

// counted has the numbers of partitions that a replica was informed of. They only grow.
type counted struct{ groups, shards int }

func partitionsOf(plan *topology.Cluster, partition uint16) counted {
	return counted{len(plan.Groups()), len(plan.Shards(plan.Partitions[partition].Region))}
}

// ErrNotHere means that this server has no replica of a partition.
var ErrNotHere = errors.New("no replica of the partition runs on this server ('globalfs status' shows the servers of each partition)")

// Lead makes the replica of a partition on this server the leader of its group, if the group accepts it.
func (s *Server) Lead(ctx context.Context, partition uint16) error {
	r := s.residence(partition)
	if r == nil {
		return fmt.Errorf("partition %d: %w", partition, ErrNotHere)
	}
	h := r.hosted.Load()
	return h.driver.Between(ctx, h.replica.Lead)
}

// Replicas returns the status of each replica on this server, by partition. It omits a replica that does not
// answer until ctx ends, for example because it takes over the state of another one.
func (s *Server) Replicas(ctx context.Context) []ask.Status {
	var asking sync.WaitGroup
	var mu sync.Mutex
	var all []ask.Status
	for _, r := range s.residences() {
		asking.Go(func() {
			if status, err := r.status(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, status)
			}
		})
	}
	asking.Wait()
	slices.SortFunc(all, func(a, b ask.Status) int { return int(a.Partition) - int(b.Partition) })
	return all
}

// Details are the state of a replica that only its server needs.
type Details struct {
	Spread int           // number of partitions over which new directories of its partition spread
	Memory *MemoryStatus // nil: its partition is not ordered in one-sided memory
}

// Details returns the details of each replica on this server, by partition. A replica that does not answer
// until ctx ends is missing.
func (s *Server) Details(ctx context.Context) map[uint16]Details {
	of := map[uint16]Details{}
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, r := range s.residences() {
		asking.Go(func() {
			h, details := r.hosted.Load(), make(chan Details, 1)
			if h.driver.Between(ctx, func() { details <- Details{h.replica.Spread(), h.memory.status()} }) == nil {
				mu.Lock()
				defer mu.Unlock()
				of[h.partition] = <-details
			}
		})
	}
	asking.Wait()
	return of
}

func (r *residence) status(ctx context.Context) (ask.Status, error) {
	request := ask.Request{Kind: ask.AskStatus}
	answer, err := r.hosted.Load().driver.Handle(ctx, nil, request.Append(nil))
	if err != nil {
		return ask.Status{}, err
	}
	reply, err := ask.DecodeReply(answer)
	if err != nil {
		return ask.Status{}, err
	}
	return ask.DecodeStatus(reply.Result)
}
