// Package ring places blocks on the storage servers of one region by consistent
// hashing (thesis 3.5.4): the ring of a region is known in full at every server,
// so that any of them finds the owners of a block without asking.
//
// Every server stands at VirtualNodes points of a circle of 64-bit positions,
// and a block at the position of its id. The servers of a block are those met
// clockwise from there, each one once. They are taken in rounds: first the first
// server of each datacenter, then the second of each, and so on, in ring order
// within a round. The first r of this order own the block, the others stand in
// for owners that fail.
//
// What holds:
//
//	R1  The order is a function of the id and the set of members alone: neither the
//	    order in which they are listed, nor the machine or the version, matters.
//	    Positions are on disks of whole regions: the hash is for ever.
//	R2  Walk names every member exactly once, and Owners(id, n) is its first n.
//	R3  The first min(n, number of datacenters) owners are in distinct datacenters.
//	R4  A member that joins or leaves changes only the places that it takes or
//	    gives up: of the others, none moves ahead of another of the same datacenter.
package ring

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// VirtualNodes is the number of points of each server: enough that the shares of
// equal servers differ by about a tenth. It is part of the placement, for ever.
const VirtualNodes = 128

// Member is one storage server.
type Member struct {
	ID         multicast.ProcessID
	Datacenter string
}

// Ring is an immutable set of members with their points. It may be shared.
type Ring struct {
	members     []Member // sorted by ID
	datacenter  []int    // of each member, as a small number
	datacenters int
	points      []point // sorted
}

// point is one virtual node.
type point struct {
	position uint64
	member   int
}

// New makes the ring of members, which must have distinct ids other than 0.
func New(members []Member) (*Ring, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("ring: no members")
	}
	r := &Ring{members: slices.Clone(members)}
	slices.SortFunc(r.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	number := make(map[string]int)
	for i, m := range r.members {
		if m.ID == 0 {
			return nil, fmt.Errorf("ring: member of datacenter %q has no id", m.Datacenter)
		}
		if i > 0 && r.members[i-1].ID == m.ID {
			return nil, fmt.Errorf("ring: member %d is listed twice", m.ID)
		}
		dc, ok := number[m.Datacenter]
		if !ok {
			dc = len(number)
			number[m.Datacenter] = dc
		}
		r.datacenter = append(r.datacenter, dc)
		for v := range uint32(VirtualNodes) {
			r.points = append(r.points, point{position: pointPosition(m.ID, v), member: i})
		}
	}
	r.datacenters = len(number)
	slices.SortFunc(r.points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.member, b.member))
	})
	return r, nil
}

// Members gives all members by ascending id.
func (r *Ring) Members() []Member { return slices.Clone(r.members) }

// Has reports whether a server is a member.
func (r *Ring) Has(id multicast.ProcessID) bool {
	return slices.ContainsFunc(r.members, func(m Member) bool { return m.ID == id })
}

// Len is the number of members.
func (r *Ring) Len() int { return len(r.members) }

// Owners gives the n servers that hold the copies of a block, the first owner
// first; fewer if the ring is smaller.
func (r *Ring) Owners(id posix.BlockID, n int) []multicast.ProcessID {
	n = min(n, len(r.members))
	walk := r.walk(id, n)
	owners := make([]multicast.ProcessID, n)
	for i := range owners {
		owners[i] = r.members[walk[i].member].ID
	}
	return owners
}

// Walk gives all members in the order in which they hold, or stand in for holding,
// copies of a block.
func (r *Ring) Walk(id posix.BlockID) []multicast.ProcessID { return r.Owners(id, len(r.members)) }

// met is a member met on the way around the ring: the round-th of its datacenter.
type met struct{ member, round int }

// walk gives the members by round and, within a round, in ring order. It may stop
// once the first n places are known, which they are when the first round has n.
func (r *Ring) walk(id posix.BlockID, n int) []met {
	seen := make([]bool, len(r.members))
	rounds := make([]int, r.datacenters)
	order := make([]met, 0, len(r.members))
	first := 0
	start, _ := slices.BinarySearchFunc(r.points, Position(id), func(p point, at uint64) int { return cmp.Compare(p.position, at) })
	for i := 0; len(order) < len(r.members) && first < n; i++ {
		m := r.points[(start+i)%len(r.points)].member
		if seen[m] {
			continue
		}
		seen[m] = true
		dc := r.datacenter[m]
		if rounds[dc] == 0 {
			first++
		}
		order = append(order, met{member: m, round: rounds[dc]})
		rounds[dc]++
	}
	slices.SortStableFunc(order, func(a, b met) int { return cmp.Compare(a.round, b.round) })
	return order
}

// Position is the place of a block on the circle: the first eight bytes, big
// endian, of the SHA-256 of its id. Blocks of one writer are thus spread evenly.
func Position(id posix.BlockID) uint64 {
	sum := sha256.Sum256(id[:])
	return binary.BigEndian.Uint64(sum[:])
}

// pointPosition is the place of virtual node v of a server.
func pointPosition(server multicast.ProcessID, v uint32) uint64 {
	b := append(make([]byte, 0, 16), "point"...)
	b = binary.BigEndian.AppendUint32(b, uint32(server))
	b = binary.BigEndian.AppendUint32(b, v)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}
