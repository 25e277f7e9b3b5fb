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

// Spec is the description of a cluster: the settings of the cluster file, and the changes since, which
// programs append. Plan computes the Cluster from it.
type Spec struct {
	// Name of the cluster. It is in its certificates and in the keys of the registry.
	Name string `yaml:"name,omitempty"`
	// Version is the number of the description. Each change has a higher one. 0: not assigned yet.
	Version uint64 `yaml:"version,omitempty"`
	// Regions of the cluster. The leader of the global partition is in the first one. Default: us-west-2,
	// us-east-1, eu-west-1.
	Regions []Region `yaml:"regions"`
	// Datacenters is the number of datacenters in each region, with one server in each: 1 to 9, default 3.
	Datacenters int `yaml:"datacenters"`
	// Replicas is the number of replicas of each partition: 1, 3 or 5, default 3. The global partition has
	// more if there are more regions.
	Replicas int `yaml:"replicas"`
	// Partitions is the number of partitions (shards) of each region at the creation of the cluster: 1 to
	// 16, default 1. New directories spread over them.
	Partitions int `yaml:"partitions,omitempty"`
	// GlobalPartitions is the number of global partitions at the creation of the cluster: 1 to 16, default
	// 1. Directories outside of the regions spread over them.
	GlobalPartitions int `yaml:"global_partitions,omitempty"`
	// Copies is the number of copies of each block in a region: 1 to Datacenters, default 2.
	Copies int `yaml:"copies"`
	// Objects puts the blocks into object storage. nil: the blocks are on the disks of the servers.
	Objects *Objects `yaml:"objects,omitempty"`
	// Multicast selects the protocols that order partitions. The cluster keeps it.
	Multicast Multicast `yaml:"multicast,omitempty"`
	// Created is the time of the creation of the cluster, and of its first directories.
	Created time.Time `yaml:"created,omitempty"`
	// Restored names the backup from which the cluster was restored. The program writes it.
	Restored string `yaml:"restored,omitempty"`
	// Replaced are the processes that have replaced others with lost disks, oldest first. The program writes
	// it.
	Replaced []Replacement `yaml:"replaced,omitempty"`
	// Added are the partitions that were added since the creation of the cluster, oldest first. The program
	// writes it.
	Added []Addition `yaml:"added_partitions,omitempty"`
	// StorageChanges are the servers that have joined and left the storage rings since, oldest first. The
	// program writes it.
	StorageChanges []StorageChange `yaml:"storage_changes,omitempty"`
	// Revoked are the processes whose certificates are refused. The program writes it.
	Revoked   []Revocation      `yaml:"revoked,omitempty"`
	Addresses map[string]string `yaml:"addresses,omitempty"`
	// Owner owns the first directories: it may write there, and give others permission.
	Owner Owner `yaml:"owner,omitempty"`
}

// maxShards is the maximum number of partitions of a region at its creation.
const maxShards = 16

// Owner is a user and a group, as numbers.
type Owner struct {
	UID uint32 `yaml:"uid"`
	GID uint32 `yaml:"gid"`
}

// DefaultSpec returns a Spec with the cluster of the thesis' example (T 3.6.1).
func DefaultSpec() Spec {
	return Spec{Regions: []Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 3, Replicas: 3, Copies: 2}
}

// ParseSpec decodes YAML over the defaults. Errors name the line and the key.
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

// kindOf describes the values of a Go type in words for the author of a file.
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

// Decode decodes YAML into into; keys that are missing keep their values. Unknown keys are errors. Errors
// name the line and the key.
func Decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		message := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").Replace(err.Error())
		message = unknownKey.ReplaceAllString(message, `unknown key "$1"`)
		return errors.New(wrongType.ReplaceAllStringFunc(message, func(text string) string {
			parts := wrongType.FindStringSubmatch(text)
			return parts[1] + " has the wrong type here: give " + kindOf(parts[2])
		}))
	}
	return nil
}

// Validate returns an error that names the wrong field, its value and the remedy.
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
		return fmt.Errorf("copies: %d: give a number from 1 to %d, the number of datacenters in a region", s.Copies, s.Datacenters)
	}
	if err := s.validateName(); err != nil {
		return err
	}
	return s.Objects.validate(s.Regions)
}

// Plan computes the cluster: a server with a storage server in each datacenter; the global partition 0, whose
// replicas are in the regions in turn; and for each region its local partitions, whose replicas are in the
// datacenters in turn. The same Spec always gives the same Cluster, including all numbers.
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

// planPartitions adds the partitions: first one of each region, and then the further shards. So a cluster
// without further shards has the same numbers.
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

// holder returns the process that has the place of a first member of a group now, and its server.
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

// Replace adds to s that a new process takes the place of another one in c, which was planned from s. The new
// process is on the given server, which must be in the same region; "" means the same server. It returns the
// number of the new process.
func (s *Spec) Replace(c *Cluster, old multicast.ProcessID, server string) multicast.ProcessID {
	last := s.lastProcess(c)
	s.Replaced = append(s.Replaced, Replacement{Old: old, New: last + 1, Server: server})
	return last + 1
}

// lastProcess returns the highest process number that was ever used.
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

// YAML encodes s for ParseSpec.
func (s *Spec) YAML() []byte {
	text, err := yaml.Marshal(s)
	invariant.Check(err == nil, "a cluster's spec does not encode: %v", err)
	return text
}
