package server

import "time"

// busyTurns is the share of time from which the turns of a replica count as short processors. A request that
// arrives then waits about as long for the turns before it as for its own.
const busyTurns = 0.5

// replicaTurns measures how busy the replicas of a server are. A replica takes its turns one after another,
// so requests of one client can keep the others waiting though processors are free.
type replicaTurns struct {
	worked func() map[uint16]time.Duration // total time of the turns of each replica, by partition
	at     time.Time
	last   map[uint16]time.Duration // worked at the last call
}

// areShort reports whether a replica was busy since the last call; false if the last call is longer ago
// than longInterval.
func (r *replicaTurns) areShort() (short bool) {
	now, worked := time.Now(), r.worked()
	since := now.Sub(r.at)
	for partition, total := range worked { // after a restart of the replica, total is less than the last one
		short = short || float64(total-r.last[partition]) >= busyTurns*float64(since)
	}
	r.at, r.last = now, worked
	return short && since < longInterval
}

// workOf returns the total time of the turns of each replica on a server.
func workOf(s *Server) map[uint16]time.Duration {
	worked := map[uint16]time.Duration{}
	for _, r := range s.residences() {
		h := r.hosted.Load()
		worked[h.partition] = h.driver.Worked()
	}
	return worked
}
