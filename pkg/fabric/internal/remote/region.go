package remote

import (
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Regions are the regions of a node.
type Regions struct {
	mu  sync.Mutex
	all map[fabric.RegionID]*Region
}

// Region is memory that peers can read and write by operations. It implements fabric.Memory.
type Region struct {
	mu     sync.Mutex
	bytes  []byte
	rights map[fabric.NodeID]fabric.Rights
}

// CheckRegion returns an error if size is not permitted for a region.
func CheckRegion(id fabric.RegionID, size int) error {
	if size <= 0 || size%8 != 0 || size > fabric.MaxRegion {
		return fmt.Errorf("fabric: region %d of %d bytes: give a multiple of 8, at most %d", id, size, fabric.MaxRegion)
	}
	return nil
}

// Register creates a region.
func (s *Regions) Register(id fabric.RegionID, size int) (*Region, error) {
	if err := CheckRegion(id, size); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id] != nil {
		return nil, fmt.Errorf("fabric: there is a region %d already: choose another number", id)
	}
	if s.all == nil {
		s.all = map[fabric.RegionID]*Region{}
	}
	r := &Region{bytes: make([]byte, size), rights: map[fabric.NodeID]fabric.Rights{}}
	s.all[id] = r
	return r, nil
}

// Grant gives rights to a peer.
func (s *Regions) Grant(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	return s.change(id, peer, func(has fabric.Rights) fabric.Rights { return has | rights })
}

// Revoke removes rights of a peer. After it has returned, no write that needs these rights is being executed.
func (s *Regions) Revoke(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	return s.change(id, peer, func(has fabric.Rights) fabric.Rights { return has &^ rights })
}

func (s *Regions) change(id fabric.RegionID, peer fabric.NodeID, to func(fabric.Rights) fabric.Rights) error {
	r := s.region(id)
	if r == nil {
		return fmt.Errorf("fabric: there is no region %d: register it", id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rights[peer] = to(r.rights[peer])
	return nil
}

// region returns a region, or nil.
func (s *Regions) region(id fabric.RegionID) *Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

// Size implements fabric.Memory.
func (r *Region) Size() int { return len(r.bytes) }

// Load implements fabric.Memory.
func (r *Region) Load(at int, into []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(into, r.bytes[at:at+len(into)])
}

// Store implements fabric.Memory.
func (r *Region) Store(at int, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	copy(r.bytes[at:at+len(data)], data)
}

// write copies data of a peer into the region. It returns false if the peer has no right.
func (r *Region) write(peer fabric.NodeID, at int, data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rights[peer]&fabric.Writable == 0 {
		return false
	}
	copy(r.bytes[at:at+len(data)], data)
	return true
}

// read returns a copy of bytes of the region for a peer. It returns false if the peer has no right.
func (r *Region) read(peer fabric.NodeID, at, length int) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rights[peer]&fabric.Readable == 0 {
		return nil, false
	}
	return append([]byte{}, r.bytes[at:at+length]...), true
}
