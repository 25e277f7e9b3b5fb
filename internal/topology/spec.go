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

// Spec is what a person says of a cluster; Plan makes a Cluster of it.
type Spec struct {
	// Name of the cluster, in its certificates and its registry.
	Name string `yaml:"name,omitempty"`
	// Version numbers the descriptions of a cluster: who keeps them gives each change a higher one. 0: nobody
	// has yet.
	Version uint64 `yaml:"version,omitempty"`
	// Regions, the first one leads the global partition. Default: us-west-2, us-east-1,
	// eu-west-1.
	Regions []Region `yaml:"regions"`
	// Datacenters a region, one server in each: 1 to 9, default 3.
	Datacenters int `yaml:"datacenters"`
	// Replicas a partition: 1, 3 or 5, default 3. The global partition has more where
	// that is needed for one in each region.
	Replicas int `yaml:"replicas"`
	// Copies of each block in a region: 1 to Datacenters, default 2.
	Copies int `yaml:"copies"`
	// Objects keeps the blocks in object storage instead of on the servers' disks. Nil: on their disks.
	Objects *Objects `yaml:"objects,omitempty"`
	// Created is when the cluster was born: the times of its first directories.
	Created time.Time `yaml:"created,omitempty"`
	// Restored is the backup that the cluster was restored from: written by the program, not by people.
	Restored string `yaml:"restored,omitempty"`
	// Replaced are the processes that took the place of others whose disks were lost, oldest first: written by
	// the program, not by people.
	Replaced []Replacement `yaml:"replaced,omitempty"`
	// StorageChanges are the servers that joined and left the storage rings since, oldest first: written by the
	// program, not by people.
	StorageChanges []StorageChange `yaml:"storage_changes,omitempty"`
	// Revoked are the processes whose certificates are refused: written by the program, not by people.
	Revoked []Revocation `yaml:"revoked,omitempty"`
	// Addresses are where the servers listen, as host:port by their names. Those of servers that joined later
	// are in StorageChanges. Empty: they have none yet.
	Addresses map[string]string `yaml:"addresses,omitempty"`
	// Owner has the first directories: who may write there and let others in.
	Owner Owner `yaml:"owner,omitempty"`
}

// Owner is a user and a group by number.
type Owner struct {
	UID uint32 `yaml:"uid"`
	GID uint32 `yaml:"gid"`
}

// DefaultSpec gives the cluster of the thesis' example (T 3.6.1).
func DefaultSpec() Spec {
	return Spec{Regions: []Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 3, Replicas: 3, Copies: 2}
}

// ParseSpec reads YAML over the defaults. Errors name the line and the key.
func ParseSpec(text []byte) (Spec, error) {
	s := DefaultSpec()
	if err := Decode(text, &s); err != nil {
		return Spec{}, fmt.Errorf("%w (known keys: name, regions, datacenters, replicas, copies, objects, created, replaced, storage_changes, addresses, owner)", err)
	}
	return s, s.Validate()
}

// typeNames are what the decoder says of Go's types, which nobody who writes a file knows.
var typeNames = regexp.MustCompile(` in type [a-z]+\.[A-Za-z]+`)

// Decode reads YAML over what into has already. Keys that it has not are errors, which name the line and the
// key.
func Decode(text []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		said := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").Replace(err.Error())
		return errors.New(typeNames.ReplaceAllString(said, ""))
	}
	return nil
}

// Validate names the field that is wrong, its value and what to do.
func (s *Spec) Validate() error {
	seen := map[Region]bool{}
	for _, r := range s.Regions {
		if seen[r] {
			return fmt.Errorf("regions: %q stands twice: remove one", r)
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
	case s.Copies < 1 || s.Copies > s.Datacenters:
		return fmt.Errorf("copies: %d: give 1 to %d, the number of datacenters", s.Copies, s.Datacenters)
	}
	if err := s.validateName(); err != nil {
		return err
	}
	return s.Objects.validate(s.Regions)
}

// Plan lays the cluster out: a server in each datacenter with a storage node; the
// global partition 0 over all regions in turn; a local partition a region over its datacenters in turn.
// The same Spec gives the same Cluster, ids included.
func (s *Spec) Plan() (*Cluster, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &Cluster{Regions: s.Regions, Copies: s.Copies, Created: s.Created, Owner: s.Owner, Replaced: s.Replaced, Objects: s.Objects}
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
	global := Partition{Path: "/"}
	for i := range max(s.Replicas, len(s.Regions)|1) {
		global.Replicas = append(global.Replicas, replica(i%len(s.Regions), i/len(s.Regions)))
	}
	c.Partitions = append(c.Partitions, global)
	for i, r := range s.Regions {
		p := Partition{ID: uint16(i + 1), Region: r, Path: "/" + string(r)}
		for n := range s.Replicas {
			p.Replicas = append(p.Replicas, replica(i, n))
		}
		c.Partitions = append(c.Partitions, p)
	}
	c.StorageChanges = s.StorageChanges
	if err := c.changeStorage(); err != nil {
		return nil, err
	}
	return c, c.Validate()
}

// holder gives the process that is in the place of one that the group was born with, and its server.
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

// Replace notes that a process is to take the place of another one in c, which was planned from s, on a
// server of the same region; empty: on the same one. It gives the number of the new process.
func (s *Spec) Replace(c *Cluster, old multicast.ProcessID, server string) multicast.ProcessID {
	last := s.lastProcess(c)
	s.Replaced = append(s.Replaced, Replacement{Old: old, New: last + 1, Server: server})
	return last + 1
}

// lastProcess gives the highest number of a process that there ever was.
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
	return last
}

// YAML gives s as ParseSpec reads it.
func (s *Spec) YAML() []byte {
	text, err := yaml.Marshal(s)
	invariant.Check(err == nil, "a cluster's spec does not encode: %v", err)
	return text
}
