package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
	"go.yaml.in/yaml/v3"
)

// PartitionState is the state of a partition that was added to a running cluster.
type PartitionState string

// The states, in the order in which a partition passes through them. Each change is made after all servers
// have applied the one before (package daemon).
const (
	PartitionPlanned PartitionState = "planned"  // all servers must learn of its group; its replicas do not run yet
	PartitionStarted PartitionState = "starting" // its replicas run; no directory is made there yet
	PartitionActive  PartitionState = ""         // new directories of its region spread over it, too
)

// Addition is a partition that was added after the creation of the cluster. Its number is the next free one:
// numbers are never used again.
type Addition struct {
	Region   Region         `yaml:"region,omitempty"` // region of a local partition; empty: a global one
	State    PartitionState `yaml:"state,omitempty"`
	Replicas []AddedReplica `yaml:"replicas"`
}

// AddedReplica is a first member of the group of an added partition.
type AddedReplica struct {
	Process multicast.ProcessID `yaml:"process"`
	Server  string              `yaml:"server"`
}

// shardPath returns the path that names the root directory of a shard.
func shardPath(r Region, shard int) string {
	path := "/" + string(r)
	if shard > 0 {
		path += fmt.Sprintf("#%d", shard+1)
	}
	return path
}

// planAdded adds the added partitions to c.
func (s *Spec) planAdded(c *Cluster) error {
	for i, a := range s.Added {
		if a.Region != "" && !slices.Contains(c.Regions, a.Region) {
			return fmt.Errorf("added_partitions: partition %d is of region %q, which the cluster has not", c.Founded+i, a.Region)
		}
		if a.State != PartitionPlanned && a.State != PartitionStarted && a.State != PartitionActive {
			return fmt.Errorf("added_partitions: partition %d has the unknown state %q", c.Founded+i, a.State)
		}
		shard := c.shardsOf(a.Region)
		p := Partition{ID: uint16(len(c.Partitions)), Region: a.Region, Shard: shard, Path: shardPath(a.Region, shard), State: a.State}
		for _, r := range a.Replicas {
			process, on := c.holder(r.Process, r.Server)
			server := c.Server(on)
			if server == nil {
				return fmt.Errorf("added_partitions: partition %d: %w", p.ID, c.NoServer(on))
			}
			p.Replicas = append(p.Replicas, Replica{Process: process, Seat: r.Process, Server: on, Region: server.Region})
		}
		switch {
		case i < len(s.Added)-1 && a.State != PartitionActive:
			return fmt.Errorf("added_partitions: partition %d is %s, and there is another one behind it", p.ID, a.State)
		case a.State == PartitionPlanned:
			c.Planned = &p
		default:
			c.Partitions = append(c.Partitions, p)
		}
	}
	return nil
}

// shardsOf returns the number of partitions of a region, in any state.
func (c *Cluster) shardsOf(r Region) (count int) {
	for i := range c.Partitions {
		if c.Partitions[i].Region == r {
			count++
		}
	}
	return count
}

// BirthShards returns the partitions over which p spreads directories at its birth: those of the creation of
// the cluster, or, for an added partition, all up to p itself. Later additions do not change the result, so
// all replicas of p begin with the same state.
func (c *Cluster) BirthShards(p *Partition) (shards []uint16) {
	last := max(int(p.ID), c.Founded-1)
	for i := range c.Partitions[:last+1] {
		if c.Partitions[i].Region == p.Region {
			shards = append(shards, c.Partitions[i].ID)
		}
	}
	return shards
}

// Adding returns the partition that is being added; nil: there is none. There is at most one at a time.
func (c *Cluster) Adding() *Partition {
	if last := &c.Partitions[len(c.Partitions)-1]; last.State != PartitionActive {
		return last
	}
	return c.Planned
}

// NoRegion is the error for a region that the cluster does not have.
func NoRegion(r Region, known []Region) error {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	return fmt.Errorf("there is no region %q: give one of %s", r, strings.Join(names, ", "))
}

// AddPartition adds to s one more partition of a region of c, which was planned from s; region "" means the
// global level. servers are the servers of its replicas; if empty, AddPartition chooses them.
func (s *Spec) AddPartition(c *Cluster, r Region, servers []string) (*Partition, error) {
	if p := c.Adding(); p != nil {
		return nil, fmt.Errorf("partition %d (%s) is being added: add another one after that", p.ID, p.Path)
	}
	if r != "" && !slices.Contains(c.Regions, r) {
		return nil, NoRegion(r, c.Regions)
	}
	if n := c.shardsOf(r); n >= maxShards {
		return nil, fmt.Errorf("%s has %d partitions, which is the maximum", placeName(r), n)
	}
	if len(servers) == 0 {
		var err error
		if servers, err = s.serversFor(c, r); err != nil {
			return nil, err
		}
	}
	a, next := Addition{Region: r, State: PartitionPlanned}, s.lastProcess(c)
	for i, name := range servers {
		server := c.Server(name)
		switch {
		case server == nil:
			return nil, c.NoServer(name)
		case r != "" && server.Region != r:
			return nil, fmt.Errorf("server %s is of region %s: name servers of %s", name, server.Region, r)
		case server.State != StorageMember:
			return nil, fmt.Errorf("server %s is leaving: name another one", name)
		case slices.Contains(servers[:i], name):
			return nil, fmt.Errorf("server %s is given twice: each replica needs a server of its own", name)
		}
		next++
		a.Replicas = append(a.Replicas, AddedReplica{Process: next, Server: name})
	}
	if len(servers)%2 == 0 {
		return nil, fmt.Errorf("%d servers: give an odd number, so that there is a majority", len(servers))
	}
	s.Added = append(s.Added, a)
	grown, err := s.Plan()
	if err != nil {
		return nil, err
	}
	return grown.Planned, nil
}

// Advance sets in s the state of the newest partition.
func (s *Spec) Advance(to PartitionState) { s.Added[len(s.Added)-1].State = to }

// AddMissing adds to s the partitions with the given paths that a cluster of s lacks. The paths must be in
// the order of the partitions' numbers. It is for partitions that were added to the cluster of a backup. The
// servers of their replicas depend only on s.
func (s *Spec) AddMissing(paths []string) error {
	c, err := s.Plan()
	for err == nil && len(c.Partitions) < len(paths) {
		name, _, _ := strings.Cut(strings.TrimPrefix(paths[len(c.Partitions)], "/"), "#")
		if _, err = s.AddPartition(c, Region(name), nil); err == nil {
			s.Advance(PartitionActive)
			c, err = s.Plan()
		}
	}
	return err
}

// EncodeAdded encodes added partitions as YAML for Decode.
func EncodeAdded(added []Addition) []byte {
	text, err := yaml.Marshal(added)
	invariant.Check(err == nil, "added partitions do not encode: %v", err)
	return text
}

// Joined reports whether a server joined the cluster after its creation.
func (c *Cluster) Joined(server string) bool {
	return slices.ContainsFunc(c.StorageChanges, func(s StorageChange) bool { return s.Server == server && s.Process != 0 })
}

// placeName returns the name of a region, or of the global level, for people.
func placeName(r Region) string {
	if r == "" {
		return "the global level"
	}
	return "region " + string(r)
}

// serversFor chooses the servers of a new partition: as many as another partition of the region has, in the
// same regions, those with the fewest replicas. If several partitions are added, their first replicas, which
// lead, are on different servers.
func (s *Spec) serversFor(c *Cluster, r Region) (servers []string, err error) {
	i := slices.IndexFunc(c.Partitions, func(p Partition) bool { return p.Region == r })
	like := slices.Clone(c.Partitions[i].Replicas)
	leads := map[string]int{}
	for _, p := range c.Partitions {
		leads[p.Replicas[0].Server]++
	}
	for _, old := range like {
		best := ""
		for _, candidate := range c.Storage(old.Region) {
			if candidate.State != StorageMember || slices.Contains(servers, candidate.Name) {
				continue
			}
			if best == "" || less(c, leads, candidate.Name, best) {
				best = candidate.Name
			}
		}
		if best == "" {
			return nil, fmt.Errorf("region %s has fewer servers than a partition of %s has replicas there: let a server join first", old.Region, placeName(r))
		}
		servers = append(servers, best)
	}
	return servers, nil
}

// less orders two servers by their number of replicas, and then by the number of partitions that they lead at
// first.
func less(c *Cluster, leads map[string]int, a, b string) bool {
	of := func(name string) int { return len(c.ReplicasOn(name)) + leads[name] }
	return of(a) < of(b)
}
