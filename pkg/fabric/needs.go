package fabric

// Region is memory that a stepped core needs: its driver registers the region before the first step.
type Region struct {
	ID   RegionID
	Size int // in bytes, divisible by 8
}

// Right is a change of the rights of a peer to a region of this node, as a stepped core asks for it.
type Right struct {
	Region RegionID
	Peer   NodeID
	Rights Rights
	Revoke bool
}
