package topology

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Region is a name such as "eu-west-1".
type Region string

// Server is one host of replicas and of a storage server.
type Server struct {
	Name       string
	Region     Region
	Datacenter string
	Address    string              // host:port; empty: none yet
	Storage    multicast.ProcessID // its storage server
	State      StorageState        // of its storage server
}

// Replica is a member of a partition's group.
type Replica struct {
	Process multicast.ProcessID
	// Seat is the original process of the group in this place: it equals Process unless that process was
	// replaced.
	Seat   multicast.ProcessID
	Server string
	Region Region
}

// Replacement is a process that replaces another one after the permanent loss of its disk.
type Replacement struct {
	Old multicast.ProcessID `yaml:"old"`
	New multicast.ProcessID `yaml:"new"`
	// Server is the server of the new process; empty: the server of the old one.
	Server string `yaml:"server,omitempty"`
}

// Partition is a shard of the metadata and the multicast group of its replicas.
type Partition struct {
	ID     uint16
	Region Region // of a local partition; empty for a global one
	// Shard numbers the partitions of a region, or the global ones, from 0. Directories spread over them; the
	// region's directory itself is in shard 0.
	Shard    int
	Path     string // of its root directory: "/" or "/name"; with "#2" and so on behind it: a further shard
	Replicas []Replica
	State    PartitionState
}

// Group is the original multicast group of p: it has the same number. The members tell each other the later
// replacements.
func (p *Partition) Group() multicast.Group {
	g := multicast.Group{ID: multicast.GroupID(p.ID)}
	for _, r := range p.Replicas {
		g.Members = append(g.Members, r.Seat)
	}
	return g
}

// Root is the inode of p's root directory.
func (p *Partition) Root() posix.Ino { return posix.MakeIno(p.ID, posix.Root.Counter()) }

// Shards lists the partitions over which the directories of a region spread, from shard 0; "" is the region
// of the global partitions. Partitions that are being added are not among them yet.
func (c *Cluster) Shards(r Region) (shards []uint16) {
	for i := range c.Partitions {
		if c.Partitions[i].Region == r && c.Partitions[i].State == PartitionActive {
			shards = append(shards, c.Partitions[i].ID)
		}
	}
	return shards
}

// PartitionDir returns the name of the directory of a partition's replica, in the data directory of a server.
func PartitionDir(partition uint16) string { return fmt.Sprintf("partition-%d", partition) }

// Regions lists the regions with replicas of p, each once: all of them keep the blocks of its files.
func (p *Partition) Regions() []Region {
	var regions []Region
	for _, r := range p.Replicas {
		if !slices.Contains(regions, r.Region) {
			regions = append(regions, r.Region)
		}
	}
	return regions
}

// Cluster is the state that all processes must agree on. It is not changed once made.
type Cluster struct {
	Regions    []Region
	Servers    []Server
	Partitions []Partition // by id, from 0
	Founded    int         // the number of partitions at the creation of the cluster; the others were added
	Planned    *Partition  // the next partition, of which the servers only know the group yet; nil: there is none
	Replaced   []Replacement
	// StorageChanges since the cluster was made; Servers already includes them.
	StorageChanges []StorageChange
	Copies         int       // of a block in a region
	Objects        *Objects  // the place of the blocks; nil: on the servers
	Multicast      Multicast // the orders of partitions
	Created        time.Time // the times of the first directories; zero: 1970
	Owner          Owner     // of the first directories
}

// Identity distinguishes this cluster from others, and from an earlier one at the same place.
func (c *Cluster) Identity() []byte { return c.Created.UTC().AppendFormat(nil, time.RFC3339Nano) }

// Of returns the partition that keeps inode i, nil if there is none.
func (c *Cluster) Of(i posix.Ino) *Partition {
	if int(i.Partition()) < len(c.Partitions) {
		return &c.Partitions[i.Partition()]
	}
	return nil
}

// Groups lists the multicast groups of all partitions, the planned one included.
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

// Replacements lists the replacements in p, oldest first.
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

// seat returns the original process at the place of p.
func (c *Cluster) seat(p multicast.ProcessID) multicast.ProcessID {
	for i := len(c.Replaced) - 1; i >= 0; i-- {
		if c.Replaced[i].New == p {
			p = c.Replaced[i].Old
		}
	}
	return p
}

// IsNear reports whether all replicas of a partition are in a region.
func (c *Cluster) IsNear(partition uint16, r Region) bool {
	return int(partition) < len(c.Partitions) && !slices.ContainsFunc(c.Partitions[partition].Replicas, func(replica Replica) bool { return replica.Region != r })
}

// Server finds a server by name, nil if there is none.
func (c *Cluster) Server(name string) *Server {
	i := slices.IndexFunc(c.Servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Servers[i]
}

// Nearest returns replicas ordered by the distance of their regions from r, ties in the order given.
func Nearest(r Region, replicas []Replica) []Replica {
	sorted := slices.Clone(replicas)
	slices.SortStableFunc(sorted, func(a, b Replica) int {
		return cmp.Compare(Delay(r, a.Region), Delay(r, b.Region))
	})
	return sorted
}

// Crowded returns an error if two replicas of a partition would share a server, and thus a directory and a
// fate; otherwise nil.
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

// Validate returns the first error in c, or nil.
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
