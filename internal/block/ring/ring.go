// Package ring places blocks on the storage servers of one region by consistent hashing (thesis 3.5.4). Every
// server knows the whole ring of its region, so it finds the owners of a block without asking another server.
//
// The ring is a circle of 64-bit positions. Each server has VirtualNodes positions, and each block has the
// position of its id. To find the owners of a block, walk clockwise from its position and note each server at
// its first position. This list is ordered in rounds: first the first server of each datacenter, then the
// second of each, and so on. The first r servers of the result own the block. The others replace owners
// that fail.
//
// Puts, gets and repair call Owners for each block. The beginning of the order, Placed servers, is therefore
// computed once for each position of the circle. A call costs one hash and one binary search, and allocates
// no memory.
//
// Guarantees:
//
//	R1  The order is a function of the id and the set of members alone: neither the
//	    order in which they are listed, nor the machine or the version, matters.
//	    The blocks of existing regions lie on the disks that this order chose, so the
//	    hash must never change.
//	R2  Walk names every member exactly once, and Owners(id, n) is its first n.
//	R3  The first min(n, number of datacenters) owners are in distinct datacenters.
//	R4  If a member joins or leaves, the other members of each datacenter keep their
//	    order among themselves. A joining member replaces at most one of the n owners
//	    of a block; the other owners stay. A server that joins N servers receives about
//	    1/(N+1) of the copies.
//	R5  OwnersAmong is Walk without the servers that are down, cut to n.
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

// Placed is how many servers of the order from each point are computed once: more than
// a region keeps copies, so that stand-ins are among them.
const Placed = 8

// Ring is an immutable set of members with their points. It may be shared.
type Ring struct {
	members    []Member // sorted by ID
	datacenter []int    // of each member, as a small number
	sizes      []int    // members of each datacenter
	points     []point  // sorted
	// places has the first width of the order from each point, one point after the other.
	places []multicast.ProcessID
	width  int
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
			r.sizes = append(r.sizes, 0)
		}
		r.sizes[dc]++
		r.datacenter = append(r.datacenter, dc)
		for v := range uint32(VirtualNodes) {
			r.points = append(r.points, point{position: pointPosition(m.ID, v), member: i})
		}
	}
	slices.SortFunc(r.points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.member, b.member))
	})
	r.place()
	return r, nil
}

// place computes the first servers from each point.
func (r *Ring) place() {
	r.width = min(Placed, len(r.members))
	r.places = make([]multicast.ProcessID, 0, r.width*len(r.points))
	w := newWalk(r)
	for start := range r.points {
		for _, m := range w.from(start, r.width)[:r.width] {
			r.places = append(r.places, r.members[m.member].ID)
		}
	}
}

// Members returns all members by ascending id.
func (r *Ring) Members() []Member { return slices.Clone(r.members) }

// Has reports whether a server is a member.
func (r *Ring) Has(id multicast.ProcessID) bool {
	return slices.ContainsFunc(r.members, func(m Member) bool { return m.ID == id })
}

// Len returns the number of members.
func (r *Ring) Len() int { return len(r.members) }

// Owners returns the n servers that hold the copies of a block, the first owner
// first; fewer if the ring is smaller. They are shared: the caller does not change them.
func (r *Ring) Owners(id posix.BlockID, n int) []multicast.ProcessID {
	n = min(n, len(r.members))
	start := r.start(id)
	if n <= r.width {
		return r.places[start*r.width : start*r.width+n : start*r.width+n]
	}
	return r.order(start, n)
}

// OwnersAmong returns the first n servers of the order that are not down, fewer if there are not so many.
// They hold the copies as long as the servers in down are down. They are shared: the caller does not change
// them.
func (r *Ring) OwnersAmong(id posix.BlockID, n int, down []multicast.ProcessID) []multicast.ProcessID {
	isDown := func(p multicast.ProcessID) bool { return slices.Contains(down, p) }
	for wide := min(n, len(r.members)); ; wide = min(2*wide, len(r.members)) {
		owners := r.Owners(id, wide)
		if !slices.ContainsFunc(owners, isDown) {
			return owners[:min(n, len(owners))]
		}
		up := slices.DeleteFunc(slices.Clone(owners), isDown)
		if len(up) >= n || wide == len(r.members) {
			return up[:min(n, len(up))]
		}
	}
}

// Walk returns all members in the order in which they hold, or stand in for holding,
// copies of a block.
func (r *Ring) Walk(id posix.BlockID) []multicast.ProcessID {
	return r.order(r.start(id), len(r.members))
}

// start is the first point clockwise from a block.
func (r *Ring) start(id posix.BlockID) int {
	at, _ := slices.BinarySearchFunc(r.points, Position(id), func(p point, at uint64) int { return cmp.Compare(p.position, at) })
	return at % len(r.points)
}

// order returns the first n servers from a point.
func (r *Ring) order(start, n int) []multicast.ProcessID {
	servers := make([]multicast.ProcessID, n)
	for i, m := range newWalk(r).from(start, n)[:n] {
		servers[i] = r.members[m.member].ID
	}
	return servers
}

// met is a member met on the way around the ring: the round-th of its datacenter.
type met struct{ member, round int }

// walk goes around the ring. It is the memory of one walk after the other.
type walk struct {
	ring     *Ring
	walks    int
	lastWalk []int // the last walk that met a member
	rounds   []int // how many members this walk has met of each datacenter
	order    []met
}

func newWalk(r *Ring) *walk {
	return &walk{ring: r, lastWalk: make([]int, len(r.members)), rounds: make([]int, len(r.sizes))}
}

// from returns the members from a point by round and, within a round, in ring order. It
// stops once the first n are known. The result is good until the next call.
func (w *walk) from(start, n int) []met {
	w.walks++
	w.order = w.order[:0]
	clear(w.rounds)
	for i := start; !w.known(n); i++ {
		m := w.ring.points[i%len(w.ring.points)].member
		if w.lastWalk[m] == w.walks {
			continue
		}
		w.lastWalk[m] = w.walks
		dc := w.ring.datacenter[m]
		w.order = append(w.order, met{member: m, round: w.rounds[dc]})
		w.rounds[dc]++
	}
	slices.SortStableFunc(w.order, func(a, b met) int { return cmp.Compare(a.round, b.round) })
	return w.order
}

// known reports whether nothing that is not met yet can be among the first n: it would be
// of the lowest round that some datacenter has not had, and behind those met of that one.
func (w *walk) known(n int) bool {
	if len(w.order) < n {
		return false
	}
	lowest := len(w.ring.members)
	for dc, round := range w.rounds {
		if round < w.ring.sizes[dc] {
			lowest = min(lowest, round)
		}
	}
	sure := 0
	for _, m := range w.order {
		if m.round <= lowest {
			sure++
		}
	}
	return sure >= n
}

// Position returns the place of a block on the circle: the first eight bytes, big
// endian, of the SHA-256 of its id. Blocks of one writer are thus spread evenly.
func Position(id posix.BlockID) uint64 {
	sum := sha256.Sum256(id[:])
	return binary.BigEndian.Uint64(sum[:])
}

// pointPosition returns the place of virtual node v of a server.
func pointPosition(server multicast.ProcessID, v uint32) uint64 {
	b := append(make([]byte, 0, 16), "point"...)
	b = binary.BigEndian.AppendUint32(b, uint32(server))
	b = binary.BigEndian.AppendUint32(b, v)
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}
