package topology

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Multicast selects the protocols that order partitions. A cluster keeps its choice for ever.
type Multicast struct {
	// Local is the order of each partition whose replicas are all in one region. Empty: LocalPrimCast.
	Local LocalOrder `yaml:"local,omitempty"`
	// Fabric selects the connections for operations of LocalTRAM. Empty: MemoryAuto.
	Fabric MemoryFabric `yaml:"fabric,omitempty"`
}

// OrDefaults returns m with the defaults in place of empty values.
func (m Multicast) OrDefaults() Multicast {
	if m.Local == "" {
		m.Local = LocalPrimCast
	}
	if m.Fabric == "" {
		m.Fabric = MemoryAuto
	}
	return m
}

// LocalOrder is the protocol that orders a partition of a region.
type LocalOrder string

// The values of LocalOrder.
const (
	LocalPrimCast LocalOrder = "primcast"
	LocalTRAM     LocalOrder = "tram" // TRAM, in one-sided memory
)

// MemoryFabric selects the connections that carry operations on one-sided memory.
type MemoryFabric string

// The values of MemoryFabric.
const (
	MemoryAuto MemoryFabric = "auto" // shared memory between processes of one host, and TCP otherwise: for each connection
	MemoryShm  MemoryFabric = "shm"  // shared memory only
	MemorySoft MemoryFabric = "soft" // TCP only
	// MemoryVerbs selects RDMA network interfaces only. Servers need one, and a program built for them.
	MemoryVerbs MemoryFabric = "verbs"
)

// Set implements pflag.Value.
func (l *LocalOrder) Set(text string) error {
	if v := LocalOrder(text); v == LocalPrimCast || v == LocalTRAM {
		*l = v
		return nil
	}
	return fmt.Errorf("%q: give primcast or tram", text)
}

// String implements pflag.Value.
func (l *LocalOrder) String() string { return string(*l) }

// Type implements pflag.Value.
func (*LocalOrder) Type() string { return "ORDER" }

// UnmarshalYAML implements yaml.Unmarshaler. The error names the line.
func (l *LocalOrder) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: multicast: local: give primcast or tram", node.Line)
	}
	if err := l.Set(node.Value); err != nil {
		return fmt.Errorf("line %d: multicast: local: %w", node.Line, err)
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler. The error names the line.
func (f *MemoryFabric) UnmarshalYAML(node *yaml.Node) error {
	const remedy = "give auto (shared memory between processes of one host, TCP otherwise), shm, soft (TCP) or verbs (RDMA)"
	switch v := MemoryFabric(node.Value); {
	case node.Kind == yaml.ScalarNode && (v == MemoryAuto || v == MemoryShm || v == MemorySoft || v == MemoryVerbs):
		*f = v
		return nil
	case node.Kind == yaml.ScalarNode:
		return fmt.Errorf("line %d: multicast: fabric: %q: %s", node.Line, node.Value, remedy)
	}
	return fmt.Errorf("line %d: multicast: fabric: %s", node.Line, remedy)
}

// OrderOf returns the protocol that orders a partition. Only a partition with all replicas in one region is
// ordered in one-sided memory.
func (c *Cluster) OrderOf(p *Partition) LocalOrder {
	if c.Multicast.Local == LocalTRAM && (p.Region != "" || len(c.Regions) == 1) {
		return LocalTRAM
	}
	return LocalPrimCast
}
