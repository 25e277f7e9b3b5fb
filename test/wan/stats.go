package wan

import "time"

// Traffic is the shape of a link, and its traffic since New.
type Traffic struct {
	Link
	From, To string // hosts
	// Packets is the number of delivered packets, Bytes their bytes of IP. One TCP packet may stand for up to
	// 64 KB of segments.
	Packets, Bytes uint64
	Lost           uint64 // lost by Link.Loss
	Dropped        uint64 // dropped at a cut, or for lack of bandwidth
}

// Stats are the statistics of the router.
type Stats struct {
	Links []Traffic // of all ordered pairs, Controller included

	late lateness
}

// Stats returns the statistics since New.
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

// Late returns a bound of the lateness of a share (0 to 1) of the delayed packets, exact up to a factor of
// two. A measurement of delays should check Late(0.99).
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

// leastLate is the upper bound of the first bucket of lateness.
const leastLate = 8 * time.Microsecond

// lateness counts packets by their lateness: the i-th bucket those above half of leastLate<<i and at most
// leastLate<<i.
type lateness [18]uint64 // up to a second

func (l *lateness) add(late time.Duration) {
	i := 0
	for i < len(l)-1 && late > leastLate<<i {
		i++
	}
	l[i]++
}
