package topology

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// StorageState is the state of a server in the storage ring of its region.
type StorageState string

// The states, in the order in which a server passes through them.
const (
	StorageMember  StorageState = ""        // it stores blocks
	StorageLeaving StorageState = "leaving" // it moves its blocks to other servers
	StorageLeft    StorageState = "left"    // it has no blocks, and stores none
)

// StorageChange is one change of the storage ring of a region since the creation of the cluster. The order of
// the list numbers the changes, so the same list gives the same rings.
type StorageChange struct {
	// Server is the name of the server that joins, begins to leave, or has left.
	Server string       `yaml:"server"`
	To     StorageState `yaml:"to,omitempty"`
	// The other fields are only for a server that joins.
	Region     Region              `yaml:"region,omitempty"`
	Datacenter string              `yaml:"datacenter,omitempty"`
	Process    multicast.ProcessID `yaml:"process,omitempty"`
	Address    string              `yaml:"address,omitempty"` // host:port of the server
}

// Storage returns the servers in the storage ring of region r, including those that are leaving.
func (c *Cluster) Storage(r Region) []Server {
	var servers []Server
	for _, s := range c.Servers {
		if s.Region == r && s.State != StorageLeft {
			servers = append(servers, s)
		}
	}
	return servers
}

// ReplicasOn returns the replicas on a server.
func (c *Cluster) ReplicasOn(server string) (replicas []Replica) {
	for _, p := range c.Partitions {
		for _, r := range p.Replicas {
			if r.Server == server {
				replicas = append(replicas, r)
			}
		}
	}
	return replicas
}

// StorageVersion returns the version of the storage ring of region r: 1 at the creation, and one more with
// each change.
func (c *Cluster) StorageVersion(r Region) uint64 {
	version := uint64(1)
	for _, change := range c.StorageChanges {
		if s := c.Server(change.Server); s != nil && s.Region == r {
			version++
		}
	}
	return version
}

// changeStorage applies s.StorageChanges to the servers of the creation.
func (c *Cluster) changeStorage() error {
	for i, change := range c.StorageChanges {
		s := c.Server(change.Server)
		switch {
		case change.To == StorageMember && s == nil && slices.Contains(c.Regions, change.Region) && change.Server != "" && change.Process != 0:
			c.Servers = append(c.Servers, Server{Name: change.Server, Region: change.Region, Datacenter: change.Datacenter, Storage: change.Process, Address: change.Address})
		case s == nil:
			return fmt.Errorf("storage change %d: server %q of region %q is not in the cluster and cannot join it: a new name, a region and a process are needed", i+1, change.Server, change.Region)
		case change.To == StorageLeaving && s.State == StorageMember || change.To == StorageLeft && s.State == StorageLeaving:
			s.State = change.To
		default:
			return fmt.Errorf("storage change %d: server %q, which is %q, cannot become %q", i+1, change.Server, s.State, change.To)
		}
	}
	for _, r := range c.Regions {
		if c.staying(r) == 0 {
			return fmt.Errorf("storage changes: no server of region %q stays to keep its blocks", r)
		}
	}
	return nil
}

// staying returns the number of servers in the storage ring of a region that are not leaving.
func (c *Cluster) staying(r Region) (count int) {
	for _, s := range c.Storage(r) {
		if s.State == StorageMember {
			count++
		}
	}
	return count
}

// JoinStorage adds to s that a new server joins the storage ring of a region of c, which was planned from s.
// It chooses the names of the server and of its datacenter, which end in the next letter.
func (s *Spec) JoinStorage(c *Cluster, r Region) (StorageChange, error) {
	if !slices.Contains(c.Regions, r) {
		return StorageChange{}, NoRegion(r, c.Regions)
	}
	n := 0
	for _, server := range c.Servers {
		if server.Region == r {
			n++
		}
	}
	if n >= maxStorage {
		return StorageChange{}, fmt.Errorf("region %q has had %d storage servers: there can be no more", r, n)
	}
	name := fmt.Sprintf("%s%c", r, 'a'+n)
	change := StorageChange{Server: name, Region: r, Datacenter: name, Process: s.lastProcess(c) + 1}
	s.StorageChanges = append(s.StorageChanges, change)
	return change, nil
}

// maxStorage bounds the number of storage servers that a region can have in its life, because their names end
// in a letter.
const maxStorage = 26

// LeaveStorage adds to s that a server begins to leave the storage ring of its region. It fails if fewer
// servers would stay than a block has copies.
func (s *Spec) LeaveStorage(c *Cluster, name string) error {
	server := c.Server(name)
	switch {
	case server == nil:
		return c.NoServer(name)
	case server.State != StorageMember:
		return fmt.Errorf("server %q is %s already", name, server.State)
	case c.staying(server.Region) <= c.Copies:
		return fmt.Errorf("region %q has %d storage servers, and keeps %d copies of each block: let another server join before this one leaves", server.Region, c.staying(server.Region), c.Copies)
	}
	s.StorageChanges = append(s.StorageChanges, StorageChange{Server: name, To: StorageLeaving})
	return nil
}

// LeftStorage adds to s that a leaving server has no blocks any more.
func (s *Spec) LeftStorage(name string) {
	s.StorageChanges = append(s.StorageChanges, StorageChange{Server: name, To: StorageLeft})
}
