package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// statusPatience is the time limit for the collection of a server's own state.
const statusPatience = 2 * time.Second

// Status returns the state of this server.
func (s *Server) Status(ctx context.Context) ServerStatus {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	d, self := s.known.current.Load(), s.self()
	status := ServerStatus{
		Name: s.cfg.Name, Region: self.Region, Address: self.Address, Build: s.cfg.Build, Started: s.started.UTC(), Version: d.spec.Version, Applied: s.applied.Load(),
		Growth: s.growth.Load(),
	}
	if apart := s.apart.Load(); apart != nil {
		status.Registry = *apart
	}
	for _, r := range s.server.Replicas(ctx) {
		status.Replicas = append(status.Replicas, ReplicaStatus{
			Partition: r.Partition, Process: uint32(r.Self), Leads: r.Leads, Seated: r.Seated, Applied: r.Applied, Undecided: r.Undecided,
			Histories: r.Histories, AgeMS: r.Age.Milliseconds(),
		})
	}
	details := s.server.Details(ctx)
	for i := range status.Replicas {
		r := &status.Replicas[i]
		before, still := s.work.movement.of(multicast.ProcessID(r.Process), time.Now())
		r.Before, r.StillMS = before, still.Milliseconds()
		detail := details[r.Partition]
		r.Spread = detail.Spread
		if detail.Memory != nil && int(r.Partition) < len(d.cluster.Partitions) {
			r.Memory = memoryOf(&d.cluster.Partitions[r.Partition], detail.Memory)
		}
	}
	for _, r := range s.server.Stopped() {
		status.Stopped = append(status.Stopped, StoppedReplica{Partition: r.Partition, Process: uint32(r.Process), State: string(r.State), Reason: r.Reason})
	}
	status.Damaged = s.damages()
	status.Digests = ownDigests(ctx, s.server).Replicas
	s.addUsage(ctx, status.Replicas)
	status.Storage = s.storage(d.cluster, self)
	status.Links = links(s.transport, s.cfg.Name)
	status.Unanswered = s.work.canaries.unanswered()
	status.Now = driver.NewSystemClock().Time().UTC()
	return status
}

// memoryOf returns the state of a replica's memory, with the names of servers.
func memoryOf(p *topology.Partition, m *server.MemoryStatus) *Memory {
	memory := &Memory{Fabrics: map[string]string{}, Slots: m.Slots, Used: m.Used, Credits: m.Credits, Revocations: m.Revocations}
	for _, r := range p.Replicas {
		if kind := m.Fabrics[r.Process]; kind != "" {
			memory.Fabrics[r.Server] = kind
		}
	}
	return memory
}

// dataPatience is the time limit for the usage of a partition.
const dataPatience = time.Second

// addUsage adds the usage of the partitions with their leader on this server.
func (s *Server) addUsage(ctx context.Context, replicas []ReplicaStatus) {
	ctx, cancel := context.WithTimeout(ctx, dataPatience)
	defer cancel()
	var asking sync.WaitGroup
	for i := range replicas {
		if r := &replicas[i]; r.Leads {
			asking.Go(func() {
				if _, usage, err := s.work.client.DroppedBlocks(ctx, r.Partition, 0, time.Time{}); err == nil {
					r.Data = &Data{Blocks: usage.Blocks, Bytes: usage.Bytes, DroppedBlocks: usage.Dropped, DroppedBytes: usage.DroppedBytes}
				}
			})
		}
	}
	asking.Wait()
}

// storage returns the state of the storage server; nil: there is none.
func (s *Server) storage(plan *topology.Cluster, self *topology.Server) *StorageServer {
	node := s.server.Storage()
	if node == nil {
		return nil
	}
	status := &StorageServer{Name: self.Name, Datacenter: self.Datacenter, State: string(self.State), Running: true}
	if stats, err := node.Stats(); err == nil {
		status.Blocks, status.Bytes, status.DeadBytes = stats.Blocks, stats.LiveBytes, stats.DeadBytes
	}
	state := node.Status()
	state.Members = region.Members{Version: state.Members.Version}
	status.Status = &state
	names := map[multicast.ProcessID]string{}
	for _, o := range plan.Storage(self.Region) {
		names[o.Storage] = o.Name
	}
	for _, down := range state.Down {
		status.Down = append(status.Down, names[down])
	}
	return status
}

// Unready returns the reason why this server is not ready; empty: it is ready.
func (s *Server) Unready(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	for _, d := range s.server.Damaged() {
		return fmt.Sprintf("the replica of partition %d is damaged: %s", d.Partition, d.Reason)
	}
	answer := map[uint16]bool{}
	for _, r := range s.server.Replicas(ctx) {
		answer[r.Partition] = true
	}
	for _, p := range s.known.current.Load().cluster.Partitions {
		for _, r := range p.Replicas {
			if r.Server == s.cfg.Name && !answer[p.ID] {
				return fmt.Sprintf("the replica of partition %d does not answer", p.ID)
			}
		}
	}
	return ""
}
