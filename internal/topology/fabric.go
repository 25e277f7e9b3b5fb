package topology

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Fabric selects the connections between processes of one host.
type Fabric string

// The values of Fabric.
const (
	FabricAuto Fabric = "auto" // shared memory, and TCP where that is not possible
	FabricOff  Fabric = "off"  // TCP
)

// UnmarshalYAML implements yaml.Unmarshaler. The error names the line.
func (f *Fabric) UnmarshalYAML(node *yaml.Node) error {
	switch v := Fabric(node.Value); {
	case node.Kind == yaml.ScalarNode && (v == FabricAuto || v == FabricOff):
		*f = v
		return nil
	case node.Kind == yaml.ScalarNode:
		return fmt.Errorf("line %d: fabric: %q: give auto (shared memory between processes of one host) or off (TCP); this version has no other fabric", node.Line, node.Value)
	}
	return fmt.Errorf("line %d: fabric: give auto or off", node.Line)
}
