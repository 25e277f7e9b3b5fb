package sim

import "time"

// react is the closed loop of a workload: it multicasts a message right after a delivery. With random times
// alone, a multicast is rarely between two deliveries of one message, where real time and the delivery orders
// can disagree.
func (r *run) react() {
	w := &r.workload
	if r.net.healed || r.reactions == w.Reactions || !r.net.percent(w.ReactPercent) {
		return
	}
	r.reactions++
	r.net.Schedule(r.net.Now()+time.Nanosecond, r.multicastNew) // later, not at the same time
}
