package tram

import "time"

// oracle decides when a member stands as a candidate (the leader election oracle of section 2.1): when work
// has waited for SuspectAfter without progress. The members stand one after the other. After a failed attempt
// a member waits longer.
type oracle struct {
	suspectAfter time.Duration
	since        time.Duration // begin of the wait, or its last progress; -1: nothing waits
	backoff      int
	random       uint64
	jitter       time.Duration
}

const maxBackoff = 4

func newOracle(suspectAfter time.Duration, seed uint64) oracle {
	o := oracle{suspectAfter: suspectAfter, since: -1, random: seed}
	o.draw()
	return o
}

// rest records that nothing waits.
func (o *oracle) rest() { o.since = -1 }

// progressed records that the group works.
func (o *oracle) progressed(now time.Duration) {
	o.backoff = 0
	o.postpone(now)
}

// postpone restarts the wait of this member, because another member leads or has begun to lead.
func (o *oracle) postpone(now time.Duration) {
	if o.since >= 0 {
		o.since = now
	}
}

// due returns the time at which a member with a rank stands, without further events.
func (o *oracle) due(now time.Duration, rank int) time.Duration {
	if o.since < 0 {
		o.since = now
	}
	return o.since + (o.suspectAfter*time.Duration(1+rank)+o.jitter)<<o.backoff
}

// stood records an attempt.
func (o *oracle) stood(now time.Duration) {
	o.since, o.backoff = now, min(o.backoff+1, maxBackoff)
	o.draw()
}

// draw draws the next jitter (splitmix64).
func (o *oracle) draw() {
	o.random += 0x9e3779b97f4a7c15
	z := o.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	o.jitter = time.Duration(z % uint64(o.suspectAfter/2+1))
}
