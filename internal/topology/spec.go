package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
	"go.yaml.in/yaml/v3"
)

// Spec is a person's description of a cluster; Plan makes a Cluster of it.
type Spec struct {
	// Name of the cluster, in its certificates and its registry.
	Name string `yaml:"name,omitempty"`
	// Version numbers the descriptions of a cluster: the keeper of the descriptions gives each change a
	// higher number. 0: not set yet.
	Version uint64 `yaml:"version,omitempty"`
	// Regions, the first one has the leader of the global partition. Default: us-west-2, us-east-1,
	// eu-west-1.
	Regions []Region `yaml:"regions"`
	// Datacenters a region, one server in each: 1 to 9, default 3.
	Datacenters int `yaml:"datacenters"`
	// Replicas a partition: 1, 3 or 5, default 3. The global partition has more if necessary for one in each
	// region.
	Replicas int `yaml:"replicas"`
	// Partitions of each region at the creation of the cluster: 1 to 16, default 1. New directories spread
	// over them.
	Partitions int `yaml:"partitions,omitempty"`
	// GlobalPartitions, over which the directories outside of the regions spread: 1 to 16, default 1, at the
	// creation.
	GlobalPartitions int `yaml:"global_partitions,omitempty"`
	// Copies of each block in a region: 1 to Datacenters, default 2.
	Copies int `yaml:"copies"`
	// Objects puts the blocks into object storage instead of the servers' disks. Nil: on the servers' disks.
	Objects *Objects `yaml:"objects,omitempty"`
	// Multicast selects the orders of partitions. The cluster keeps it.
	Multicast Multicast `yaml:"multicast,omitempty"`
	// Created is the time of birth of the cluster: the time of its first directories.
	Created time.Time `yaml:"created,omitempty"`
	// Restored is the backup that the cluster was restored from: written by the program, not by people.
	Restored string `yaml:"restored,omitempty"`
	// Replaced are the processes that replaced others with lost disks, oldest first: written by
	// the program, not by people.
	Replaced []Replacement `yaml:"replaced,omitempty"`
	// Added are the partitions that were added since the creation of the cluster, oldest first: written by
	// the program, not by people.
	Added []Addition `yaml:"added_partitions,omitempty"`
	// StorageChanges are the servers that joined and left the storage rings since, oldest first: written by
	// the program, not by people.
	StorageChanges []StorageChange `yaml:"storage_changes,omitempty"`
	// Revoked are the processes with refused certificates: written by the program, not by people.
	Revoked []Revocation `yaml:"revoked,omitempty"`
	// Addresses are the host:port addresses of the servers by their names. Servers that joined later have
	// theirs in StorageChanges. Empty: they have none yet.
	Addresses map[string]string `yaml:"addresses,omitempty"`
	// Owner owns the first directories: it may write there and admit others.
	Owner Owner `yaml:"owner,omitempty"`
}

// maxShards is the most partitions of a region.
const maxShards = 16

// Owner is a user and a group by number.
type Owner struct {
	UID uint32 `yaml:"uid"`
	GID uint32 `yaml:"gid"`
}

// DefaultSpec returns the cluster of the thesis' example (T 3.6.1).
func DefaultSpec() Spec {
	return Spec{Regions: []Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 3, Replicas: 3, Copies: 2}
}

// ParseSpec reads YAML over the defaults. Errors name the line and the key.
func ParseSpec(text []byte) (Spec, error) {
	s := DefaultSpec()
	if err := Decode(text, &s); err != nil {
		return Spec{}, fmt.Errorf("%w (known keys: name, regions, datacenters, replicas, partitions, global_partitions, copies, objects, multicast, created, replaced, added_partitions, storage_changes, addresses, owner)", err)
	}
	return s, s.Validate()
}

// Parts of the decoder's errors with the names of Go types, which the author of a file does not know.
var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongType  = regexp.MustCompile(`cannot unmarshal !!\S+ (` + "`[^`]*`" + `) into (\S+)`)
)

// kindOf describes the values of a Go type to the author of a file.
func kindOf(goType string) string {
	switch {
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "time.Duration":
		return "a duration such as 30s"
	case strings.HasPrefix(goType, "[]"):
		return "a list such as [a, b]"
	case goType == "string":
		return "a text"
	}
	return "keys with values, as in key: value"
}

// Decode reads YAML over the present content of into. Unknown keys are errors, which name the line and the
// key.
func Decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		said := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").Replace(err.Error())
		said = unknownKey.ReplaceAllString(said, `unknown key "$1"`)
		return errors.New(wrongType.ReplaceAllStringFunc(said, func(text string) string {
			parts := wrongType.FindStringSubmatch(text)
			return parts[1] + " has the wrong type here: give " + kindOf(parts[2])
		}))
	}
	return nil
}

// Validate names the field that is wrong, its value and what to do.
func (s *Spec) Validate() error {
	seen := map[Region]bool{}
	for _, r := range s.Regions {
		if seen[r] {
			return fmt.Errorf("regions: %q is listed twice: remove one", r)
		}
		if r == "" || r == "." || r == ".." || len(r) > 63 || strings.ContainsAny(string(r), "/=, \x00") {
			return fmt.Errorf("regions: %q cannot be the name of a directory: use letters, digits and dashes", r)
		}
		seen[r] = true
	}
	switch {
	case len(s.Regions) == 0 || len(s.Regions) > 64:
		return fmt.Errorf("regions: %d of them: give 1 to 64", len(s.Regions))
	case s.Datacenters < 1 || s.Datacenters > 9:
		return fmt.Errorf("datacenters: %d: give 1 to 9", s.Datacenters)
	case s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5:
		return fmt.Errorf("replicas: %d: give 1, 3 or 5, so that there is a majority", s.Replicas)
	case s.Partitions < 0 || s.Partitions > maxShards:
		return fmt.Errorf("partitions: %d: give 1 to %d partitions for each region", s.Partitions, maxShards)
	case s.GlobalPartitions < 0 || s.GlobalPartitions > maxShards:
		return fmt.Errorf("global_partitions: %d: give 1 to %d", s.GlobalPartitions, maxShards)
	case s.Copies < 1 || s.Copies > s.Datacenters:
		return fmt.Errorf("copies: %d: give 1 to %d, the number of datacenters", s.Copies, s.Datacenters)
	}
	if err := s.validateName(); err != nil {
		return err
	}
	return s.Objects.validate(s.Regions)
}

// Plan lays the cluster out: a server in each datacenter with a storage server; the
// global partition 0 over all regions in turn; a local partition a region over its datacenters in turn.
// The same Spec gives the same Cluster, ids included.
func (s *Spec) Plan() (*Cluster, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{Regions: s.Regions, Copies: s.Copies, Created: s.Created, Owner: s.Owner, Replaced: s.Replaced, Objects: s.Objects, Multicast: s.Multicast}
	next := multicast.ProcessID(1)
	take := func() multicast.ProcessID { next++; return next - 1 }
	for _, r := range s.Regions {
		for d := range s.Datacenters {
			dc := fmt.Sprintf("%s%c", r, 'a'+d)
			c.Servers = append(c.Servers, Server{Name: dc, Region: r, Datacenter: dc, Storage: take()})
		}
	}
	if err := s.locate(c); err != nil {
		return nil, err
	}
	replica := func(region, n int) Replica {
		server := c.Servers[region*s.Datacenters+n%s.Datacenters]
		seat := take()
		process, on := c.holder(seat, server.Name)
		return Replica{Process: process, Seat: seat, Server: on, Region: server.Region}
	}
	s.planPartitions(c, replica)
	c.Founded = len(c.Partitions)
	c.StorageChanges = s.StorageChanges
	if err := c.changeStorage(); err != nil {
		return nil, err
	}
	if err := s.planAdded(c); err != nil {
		return nil, err
	}
	return c, c.Validate()
}

// planPartitions lays out the partitions: first one of each region, then the further shards, so that the
// numbers of a cluster without shards stay the same.
func (s *Spec) planPartitions(c *Cluster, replica func(region, n int) Replica) {
	add := func(region, shard int) {
		p := Partition{ID: uint16(len(c.Partitions)), Shard: shard}
		if region < 0 {
			for i := range max(s.Replicas, len(s.Regions)|1) {
				p.Replicas = append(p.Replicas, replica((i+shard)%len(s.Regions), i/len(s.Regions)))
			}
		} else {
			p.Region = s.Regions[region]
			for n := range s.Replicas {
				p.Replicas = append(p.Replicas, replica(region, n+shard))
			}
		}
		p.Path = shardPath(p.Region, shard)
		c.Partitions = append(c.Partitions, p)
	}
	for shard := range max(s.Partitions, s.GlobalPartitions, 1) {
		if shard == 0 || shard < s.GlobalPartitions {
			add(-1, shard)
		}
		for region := range s.Regions {
			if shard == 0 || shard < s.Partitions {
				add(region, shard)
			}
		}
	}
}

// holder returns the process in the place of an original member of the group, and its server.
func (c *Cluster) holder(p multicast.ProcessID, server string) (multicast.ProcessID, string) {
	for _, r := range c.Replaced {
		if r.Old == p {
			p = r.New
			if r.Server != "" {
				server = r.Server
			}
		}
	}
	return p, server
}

// Replace records that a process is to replace another one in c, which was planned from s, on a server of the
// same region; empty: on the same server. It returns the number of the new process.
func (s *Spec) Replace(c *Cluster, old multicast.ProcessID, server string) multicast.ProcessID {
	last := s.lastProcess(c)
	s.Replaced = append(s.Replaced, Replacement{Old: old, New: last + 1, Server: server})
	return last + 1
}

// lastProcess returns the highest number of all processes that ever existed.
func (s *Spec) lastProcess(c *Cluster) (last multicast.ProcessID) {
	for _, server := range c.Servers {
		last = max(last, server.Storage)
	}
	for _, p := range c.Partitions {
		for _, r := range p.Replicas {
			last = max(last, r.Process, r.Seat)
		}
	}
	for _, r := range s.Replaced {
		last = max(last, r.New)
	}
	for _, a := range s.Added {
		for _, r := range a.Replicas {
			last = max(last, r.Process)
		}
	}
	return last
}

// YAML encodes s in the format of ParseSpec.
func (s *Spec) YAML() []byte {
	text, err := yaml.Marshal(s)
	invariant.Check(err == nil, "a cluster's spec does not encode: %v", err)
	return text
}
