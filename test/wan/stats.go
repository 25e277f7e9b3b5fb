package wan

import "time"

// Traffic is what a link is like, and what has gone over it since New.
type Traffic struct {
	Link
	From, To string // hosts
	// Packets arrived, with so many Bytes of IP. One of TCP may stand for up to 64 KB of segments.
	Packets, Bytes uint64
	Lost           uint64 // by chance
	Dropped        uint64 // at a cut, or for want of bandwidth
}

// Stats is what the router did.
type Stats struct {
	Links []Traffic // of all ordered pairs, Controller included

	late lateness
}

// Stats gives the numbers since New.
func (l *Lab) Stats() Stats {
	r := l.router
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{late: r.late}
	for i := range r.paths {
		if p := &r.paths[i]; p.from != p.to {
			s.Links = append(s.Links, p.Traffic)
		}
	}
	return s
}

// Late says how much later than it should a share (0 to 1) of the delayed packets arrived at most, up to a
// factor of two: a measurement whose delays matter should look at Late(0.99).
func (s *Stats) Late(share float64) time.Duration {
	var all, seen uint64
	for _, n := range s.late {
		all += n
	}
	for i, n := range s.late {
		seen += n
		if seen > 0 && float64(seen) >= share*float64(all) {
			return leastLate << i
		}
	}
	return 0
}

// leastLate is the bound of the first bucket of lateness.
const leastLate = 8 * time.Microsecond

// lateness counts packets by how late they were: in the i-th bucket those later than half of leastLate<<i and
// not later than that.
type lateness [18]uint64 // up to a second

func (l *lateness) add(late time.Duration) {
	i := 0
	for i < len(l)-1 && late > leastLate<<i {
		i++
	}
	l[i]++
}
