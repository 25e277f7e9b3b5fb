package onesided

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// The first life of the process of a generation has the number generation << generationShift.
const generationShift = 16

// seat is a member of the group for TRAM.
type seat struct {
	process multicast.ProcessID   // the first process: TRAM's name of the seat
	node    multicast.ProcessID   // the present one
	past    []multicast.ProcessID // those before, each once
}

// generation returns the number of replacements.
func (s *seat) generation() uint32 { return uint32(len(s.past)) }

// life returns the first life of the present process.
func (s *seat) life() uint32 { return s.generation() << generationShift }

// replace records that a process had the seat.
func (s *seat) replace(former multicast.ProcessID) {
	if !slices.Contains(s.past, former) {
		s.past = append(s.past, former)
	}
}

// tram returns the seat for TRAM.
func (s *seat) tram() tram.Seat {
	return tram.Seat{Process: s.process, Life: s.life(), Node: fabric.NodeID(s.node)}
}

// seats are those of a group, in the order of the group.
type seats []*seat

func newSeats(g *multicast.Group, replaced []multicast.Replacement) (all seats) {
	for _, p := range g.Members {
		all = append(all, &seat{process: p, node: p})
	}
	for _, r := range replaced {
		if s := all.of(r.Old); s != nil && r.New != 0 {
			s.replace(r.Old)
			s.node = r.New
		}
	}
	return all
}

// of returns the seat that a process has now, or nil.
func (all seats) of(p multicast.ProcessID) *seat {
	for _, s := range all {
		if s.node == p {
			return s
		}
	}
	return nil
}

// formerly returns the seat that a process had, or nil.
func (all seats) formerly(p multicast.ProcessID) *seat {
	for _, s := range all {
		if slices.Contains(s.past, p) {
			return s
		}
	}
	return nil
}

// nodes returns the present processes.
func (all seats) nodes() (nodes []multicast.ProcessID) {
	for _, s := range all {
		nodes = append(nodes, s.node)
	}
	return nodes
}

// all returns the seats that were replaced, for TRAM.
func (all seats) all() (given []tram.Seat) {
	for _, s := range all {
		if s.generation() > 0 {
			given = append(given, s.tram())
		}
	}
	return given
}

// take makes the requested replacements. In a chain of replacements of one seat, each request names the last
// process: each of the others was a generation. A request is repeated until all orders have it, and a chain
// may grow meanwhile. Members cannot be added or removed.
func (all seats) take(asked []multicast.Replacement) (given []tram.Seat) {
	for _, r := range asked {
		s := all.of(r.Old)
		if s == nil || r.New == 0 || all.of(r.New) != nil {
			continue
		}
		for _, other := range asked {
			if other.New == r.New {
				s.replace(other.Old)
			}
		}
		s.node = r.New
		given = append(given, s.tram())
	}
	return given
}
