package fabric

// Region is memory that a stepped core needs. The driver of the core registers the region before the first
// step.
type Region struct {
	ID   RegionID
	Size int // in bytes, divisible by 8
}

// Right is a change of the rights of a peer to a region of this node. A stepped core outputs it, and its
// driver executes it.
type Right struct {
	Region RegionID
	Peer   NodeID
	Rights Rights
	Revoke bool
}
