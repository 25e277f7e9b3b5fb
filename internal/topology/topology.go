package topology

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Region is the name of a region, such as "eu-west-1".
type Region string

// Server is a host with replicas and a storage server.
type Server struct {
	Name       string
	Region     Region
	Datacenter string
	Address    string              // host:port; empty: none yet
	Storage    multicast.ProcessID // the process of its storage server
	State      StorageState        // state of its storage server
}

// Replica is a member of a partition's group.
type Replica struct {
	Process multicast.ProcessID
	// Seat is the first process of the group in this place. It differs from Process if that process was
	// replaced.
	Seat   multicast.ProcessID
	Server string
	Region Region
}

// Replacement is a process that takes the place of another one whose disk is permanently lost.
type Replacement struct {
	Old multicast.ProcessID `yaml:"old"`
	New multicast.ProcessID `yaml:"new"`
	// Server is the server of the new process; empty: that of the old one.
	Server string `yaml:"server,omitempty"`
}

// Partition is a part of the metadata, and the group of its replicas.
type Partition struct {
	ID     uint16
	Region Region // of a local partition; empty for a global one
	// Shard is the number of the partition among those of its region, or among the global ones, from 0. New
	// directories spread over the shards. The directory of the region itself is in shard 0.
	Shard    int
	Path     string // path of its root directory: "/" or "/REGION"; further shards have "#2" and so on after it
	Replicas []Replica
	State    PartitionState
}

// Group returns the first members of p as a multicast group with the same number. The members inform each
// other of later replacements.
func (p *Partition) Group() multicast.Group {
	g := multicast.Group{ID: multicast.GroupID(p.ID)}
	for _, r := range p.Replicas {
		g.Members = append(g.Members, r.Seat)
	}
	return g
}

// Root returns the inode number of p's root directory.
func (p *Partition) Root() posix.Ino { return posix.MakeIno(p.ID, posix.Root.Counter()) }

// Shards returns the partitions over which the directories of a region spread, from shard 0; "" means the
// global partitions. It omits partitions that are being added.
func (c *Cluster) Shards(r Region) (shards []uint16) {
	for i := range c.Partitions {
		if c.Partitions[i].Region == r && c.Partitions[i].State == PartitionActive {
			shards = append(shards, c.Partitions[i].ID)
		}
	}
	return shards
}

// PartitionDir returns the name of the directory of a partition's replica in the data directory of a server.
func PartitionDir(partition uint16) string { return fmt.Sprintf("partition-%d", partition) }

// Regions returns the regions with replicas of p, each once. Each of them stores the blocks of p's files.
func (p *Partition) Regions() []Region {
	var regions []Region
	for _, r := range p.Replicas {
		if !slices.Contains(regions, r.Region) {
			regions = append(regions, r.Region)
		}
	}
	return regions
}

// Cluster is the plan of a cluster, which all processes must agree on. It is immutable.
type Cluster struct {
	Regions    []Region
	Servers    []Server
	Partitions []Partition // by number, from 0
	Founded    int         // number of partitions at the creation of the cluster; the others were added
	Planned    *Partition  // the next partition, whose group the servers must learn; nil: there is none
	Replaced   []Replacement
	// StorageChanges are the changes since the creation of the cluster; Servers includes them.
	StorageChanges []StorageChange
	Copies         int       // number of copies of a block in a region
	Objects        *Objects  // object storage of the blocks; nil: they are on the servers
	Multicast      Multicast // protocols that order partitions
	Created        time.Time // time of the creation, and of the first directories; zero: 1970
	Owner          Owner     // owner of the first directories
}

// Identity returns bytes that distinguish this cluster from others, and from an earlier one on the same
// servers.
func (c *Cluster) Identity() []byte { return c.Created.UTC().AppendFormat(nil, time.RFC3339Nano) }

// Of returns the partition that is the home of inode i; nil: there is none.
func (c *Cluster) Of(i posix.Ino) *Partition {
	if int(i.Partition()) < len(c.Partitions) {
		return &c.Partitions[i.Partition()]
	}
	return nil
}

// Groups returns the multicast groups of all partitions, including the planned one.
func (c *Cluster) Groups() []multicast.Group {
	groups := make([]multicast.Group, 0, len(c.Partitions)+1)
	for i := range c.Partitions {
		groups = append(groups, c.Partitions[i].Group())
	}
	if c.Planned != nil {
		groups = append(groups, c.Planned.Group())
	}
	return groups
}

// Replacements returns the replacements of replicas of p, oldest first.
func (c *Cluster) Replacements(p *Partition) (all []multicast.Replacement) {
	for _, r := range c.Replaced {
		for _, member := range p.Replicas {
			if c.seat(r.New) == member.Seat {
				all = append(all, multicast.Replacement{Old: r.Old, New: r.New})
			}
		}
	}
	return all
}

// seat returns the first process in the place of p.
func (c *Cluster) seat(p multicast.ProcessID) multicast.ProcessID {
	for i := len(c.Replaced) - 1; i >= 0; i-- {
		if c.Replaced[i].New == p {
			p = c.Replaced[i].Old
		}
	}
	return p
}

// IsNear reports whether all replicas of a partition are in region r.
func (c *Cluster) IsNear(partition uint16, r Region) bool {
	return int(partition) < len(c.Partitions) && !slices.ContainsFunc(c.Partitions[partition].Replicas, func(replica Replica) bool { return replica.Region != r })
}

// Server returns the server with a name; nil: there is none.
func (c *Cluster) Server(name string) *Server {
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Servers[i]
}

// Nearest returns replicas by the distance of their regions from r. Replicas at the same distance keep their
// order.
func Nearest(r Region, replicas []Replica) []Replica {
	sorted := slices.Clone(replicas)
	slices.SortStableFunc(sorted, func(a, b Replica) int {
		return cmp.Compare(Delay(r, a.Region), Delay(r, b.Region))
	})
	return sorted
}

// Crowded returns an error if two replicas of a partition are on the same server, and would thus fail
// together.
func (c *Cluster) Crowded() error {
	for _, p := range c.Partitions {
		on := map[string]bool{}
		for _, r := range p.Replicas {
			if on[r.Server] {
				return fmt.Errorf("partition %d (%s) would have two of its %d replicas on server %s: give more datacenters, or fewer replicas", p.ID, p.Path, len(p.Replicas), r.Server)
			}
			on[r.Server] = true
		}
	}
	return nil
}

// Validate returns the first error in c; nil: there is none.
func (c *Cluster) Validate() error {
	if len(c.Partitions) == 0 || c.Partitions[0].Path != "/" {
		return fmt.Errorf("cluster: partition 0 must stand at /")
	}
	seen := map[multicast.ProcessID]string{}
	claim := func(id multicast.ProcessID, who string) error {
		if other, ok := seen[id]; ok || id == 0 {
			return fmt.Errorf("cluster: %s has process id %d, which is %s", who, id, map[bool]string{true: "also that of " + other, false: "reserved"}[ok])
		}
		seen[id] = who
		return nil
	}
	for _, s := range c.Servers {
		if err := claim(s.Storage, "the storage node of "+s.Name); err != nil {
			return err
		}
	}
	all := c.Partitions
	if c.Planned != nil {
		all = append(slices.Clip(all), *c.Planned)
	}
	for i, p := range all {
		if int(p.ID) != i {
			return fmt.Errorf("cluster: partition %d stands at place %d", p.ID, i)
		}
		if len(p.Replicas)%2 == 0 {
			return fmt.Errorf("cluster: partition %d has %d replicas: an odd number is needed", p.ID, len(p.Replicas))
		}
		for _, r := range p.Replicas {
			if server := c.Server(r.Server); server == nil || server.Region != r.Region {
				return fmt.Errorf("cluster: partition %d has a replica on server %q, of which region %s has none", p.ID, r.Server, r.Region)
			}
			if err := claim(r.Process, fmt.Sprintf("a replica of partition %d", p.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}
