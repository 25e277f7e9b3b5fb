package geo

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// Settings are the ways to run the cluster, in the order in which they take turns.
const (
	Embedded     = "embedded"      // all servers in one process, queues in memory between them
	EmbeddedGRPC = "embedded-grpc" // the same, TLS over loopback between them
	EmbeddedWAN  = "embedded-wan"  // the same as Embedded, with the delays between the regions
	Loopback     = "loopback"      // a process for each server and mount, on loopback, with TLS
	LoopbackSync = "loopback-sync" // the same as Loopback, with durability sync
	LoopbackTRAM = "loopback-tram" // the same as LoopbackSync, and TRAM orders the partitions of a region
	LoopbackSoft = "loopback-soft" // the same as LoopbackTRAM, without shared memory for TRAM
	Lab          = "lab"           // as Loopback in the WAN laboratory
)

// Settings lists all of them.
func Settings() []string {
	return []string{Embedded, EmbeddedGRPC, EmbeddedWAN, Loopback, LoopbackSync, LoopbackTRAM, LoopbackSoft, Lab}
}

// Config selects the measurements and the settings.
type Config struct {
	Program     string   // the globalfs binary
	Loader      []string // the command, without its flags, that serves a Load
	Etcd        string   // the etcd binary, for Loopback and Lab
	Dir         string   // for data and logs: an empty directory, useless afterwards
	Settings    []string
	Regions     []topology.Region
	Datacenters int           // a region, one server in each
	Clients     []int         // in a closed loop; each number is measured
	Duration    time.Duration // of each measurement in each round
	Rounds      int
	Sync        bool   // the mounts order each change before they answer, as the thesis' clients do
	Profile     string // directory for CPU profiles of one create; empty: no profiles
	Progress    func(string)
}

// Default measures three servers, one per region, in all settings.
func Default() Config {
	return Config{
		Settings: []string{Embedded, EmbeddedGRPC, EmbeddedWAN, Loopback, Lab}, Regions: []topology.Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 1,
		Clients: []int{1, 8}, Duration: time.Second, Rounds: 3,
	}
}

// Validate returns the first error.
func (c *Config) Validate() error {
	for _, s := range c.Settings {
		if !slices.Contains(Settings(), s) {
			return fmt.Errorf("setting %q: give some of %q", s, Settings())
		}
	}
	for _, n := range c.Clients {
		if n < 1 {
			return fmt.Errorf("%d clients: give at least 1", n)
		}
	}
	spec := c.spec()
	switch {
	case len(c.Settings) == 0:
		return fmt.Errorf("no setting: give some of %q", Settings())
	case len(c.Clients) == 0:
		return fmt.Errorf("no number of clients: give at least one")
	case c.Duration <= 0:
		return fmt.Errorf("a duration of %v: give a positive one", c.Duration)
	case c.Rounds < 1:
		return fmt.Errorf("%d rounds: give at least 1", c.Rounds)
	}
	return spec.Validate()
}

// spec returns the cluster of all settings: as many replicas of a region's partition, and copies of a block,
// as its servers allow, up to three and two.
func (c *Config) spec() topology.Spec {
	spec := topology.Spec{Regions: c.Regions, Datacenters: c.Datacenters, Replicas: 1, Copies: max(1, min(c.Datacenters, 2))}
	if c.Datacenters >= 3 {
		spec.Replicas = 3
	}
	return spec
}

// NeedsEtcd reports whether a setting has server processes.
func (c *Config) NeedsEtcd() bool {
	return slices.ContainsFunc(c.Settings, func(s string) bool {
		return s == Loopback || s == LoopbackSync || s == LoopbackTRAM || s == LoopbackSoft || s == Lab
	})
}
