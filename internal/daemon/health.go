package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// Health is the state of a cluster as an operator wants to see it.
type Health struct {
	Cluster    string            `json:"cluster"`
	Version    uint64            `json:"version"`  // of its description
	Problems   []string          `json:"problems"` // each begins with a code, for ever the same
	Servers    []ServerHealth    `json:"servers"`
	Partitions []PartitionHealth `json:"partitions"`
}

// ServerHealth is one server.
type ServerHealth struct {
	Name     string          `json:"name"`
	Region   topology.Region `json:"region"`
	Address  string          `json:"address"`
	State    string          `json:"state"` // up, down, leaving
	Build    string          `json:"build,omitempty"`
	UpFor    int64           `json:"up_for_s,omitempty"` // seconds
	Replicas int             `json:"replicas"`
	Leads    int             `json:"leads"`
	Storage  *StorageServer  `json:"storage,omitempty"`
}

// PartitionHealth is one partition.
type PartitionHealth struct {
	ID       uint16          `json:"id"`
	Path     string          `json:"path"`
	Region   topology.Region `json:"region,omitempty"` // empty: global
	Leader   string          `json:"leader,omitempty"` // its server; empty: none just now, the next update finds one
	Replicas []ReplicaHealth `json:"replicas"`
	Applied  uint64          `json:"applied"`        // by the replica that is furthest
	Data     *Data           `json:"data,omitempty"` // as the leader knows it
}

// ReplicaHealth is one replica.
type ReplicaHealth struct {
	Server    string `json:"server"`
	Up        bool   `json:"up"`
	Lag       uint64 `json:"lag"`       // commands behind the replica that is furthest
	Undecided int    `json:"undecided"` // commands of several partitions that wait for others
	AgeMS     int64  `json:"age_ms"`
}

// Codes of problems.
const (
	ServerDown       = "SERVER_DOWN"
	ServerBehind     = "SERVER_BEHIND"     // it does not know of the last change of the cluster
	RegistryAway     = "REGISTRY_AWAY"     // files are served all the same
	PartitionBlocked = "PARTITION_BLOCKED" // no majority: no updates
	PartitionWeak    = "PARTITION_WEAK"    // a majority, but replicas are missing
	ReplicaBehind    = "REPLICA_BEHIND"
	RepairPending    = "REPAIR_PENDING"
	BlocksLost       = "BLOCKS_LOST"
)

// farBehind is how many commands a replica may be behind others that were asked at the same time.
const farBehind = 1000

// Judge makes a Health of what the servers of a cluster said.
func Judge(name string, answers []Answer, plan *topology.Cluster) *Health {
	h := &Health{Cluster: name, Problems: []string{}}
	j := judge{health: h, replicas: map[uint32]ReplicaStatus{}}
	for _, a := range answers {
		h.Version = max(h.Version, a.Status.Version)
	}
	for i := range answers {
		j.server(&answers[i])
	}
	for i := range plan.Partitions {
		j.partition(&plan.Partitions[i])
	}
	return h
}

// judge is a Health in the making.
type judge struct {
	health   *Health
	replicas map[uint32]ReplicaStatus // by process: those that answered
}

func (j *judge) problem(code, format string, args ...any) {
	j.health.Problems = append(j.health.Problems, code+": "+fmt.Sprintf(format, args...))
}

func (j *judge) server(a *Answer) {
	s := ServerHealth{Name: a.Server.Name, Region: a.Server.Region, Address: a.Server.Address, State: "up"}
	if a.Error != "" {
		s.State = "down"
		j.problem(ServerDown, "server %s does not answer: %s", s.Name, a.Error)
		j.health.Servers = append(j.health.Servers, s)
		return
	}
	if a.Server.State != topology.StorageMember {
		s.State = string(a.Server.State)
	}
	status := &a.Status
	s.Build, s.UpFor, s.Replicas, s.Storage = status.Build, int64(time.Since(status.Started).Seconds()), len(status.Replicas), status.Storage
	for _, r := range status.Replicas {
		j.replicas[r.Process] = r
		if r.Leads {
			s.Leads++
		}
	}
	if status.Registry != "" {
		j.problem(RegistryAway, "server %s: %s", s.Name, status.Registry)
	}
	if status.Version < j.health.Version {
		j.problem(ServerBehind, "server %s knows version %d of the cluster, others %d", s.Name, status.Version, j.health.Version)
	}
	j.storage(s.Name, status.Storage)
	j.health.Servers = append(j.health.Servers, s)
}

func (j *judge) storage(server string, s *StorageServer) {
	if s == nil || s.Status == nil {
		return
	}
	last := s.Status.Repair.Last
	switch {
	case last.FinishedAt.IsZero():
		j.problem(RepairPending, "server %s has not looked through its blocks since it started: wait before another one is stopped", server)
	case !last.Complete:
		j.problem(RepairPending, "server %s could not look through all of its blocks: %s", server, last.Error)
	}
	if last.Lost > 0 {
		j.problem(BlocksLost, "%d blocks have no good copy in the region, says server %s: its log names them", last.Lost, server)
	}
}

func (j *judge) partition(p *topology.Partition) {
	h := PartitionHealth{ID: p.ID, Path: p.Path, Region: p.Region}
	for _, r := range p.Replicas {
		h.Applied = max(h.Applied, j.replicas[uint32(r.Process)].Applied)
	}
	var down []string
	for _, r := range p.Replicas {
		status, up := j.replicas[uint32(r.Process)]
		one := ReplicaHealth{Server: r.Server, Up: up}
		if up && (!status.Seated || h.Applied-status.Applied > farBehind) {
			j.problem(ReplicaBehind, "the replica of partition %d (%s) on %s is not as far as the others: wait before another server is stopped", p.ID, p.Path, r.Server)
		}
		if up {
			one.Lag, one.Undecided, one.AgeMS = h.Applied-status.Applied, status.Undecided, status.AgeMS
		} else {
			down = append(down, r.Server)
		}
		if status.Leads {
			h.Leader, h.Data = r.Server, status.Data
		}
		h.Replicas = append(h.Replicas, one)
	}
	slices.Sort(down)
	switch {
	case 2*len(down) > len(p.Replicas):
		j.problem(PartitionBlocked, "partition %d (%s) takes no updates: no replica on %s", p.ID, p.Path, strings.Join(down, ", "))
	case len(down) > 0:
		j.problem(PartitionWeak, "partition %d (%s) has no replica on %s", p.ID, p.Path, strings.Join(down, ", "))
	}
	j.health.Partitions = append(j.health.Partitions, h)
}
