package tram

import "time"

// oracle decides when a member stands as a candidate (the leader election oracle of section 2.1): when work
// has waited for SuspectAfter without progress. If the operations of the member on the memory of the leader
// fail, as after the death of a process, it waits for a fraction of the time, once: after an early attempt it
// waits for the whole time until an operation on the memory of a leader succeeds. So two members that cannot
// reach each other do not depose each other all the time. The members stand one after the other. After a
// failed attempt a member waits longer.
type oracle struct {
	suspectAfter time.Duration
	since        time.Duration // begin of the wait, or its last progress; -1: nothing waits
	gone         time.Duration // since when the operations on the memory of the leader fail; -1: they do not fail
	early        bool          // the member has stood early since an operation on the memory of a leader has succeeded
	backoff      int
	random       uint64
	jitter       time.Duration
}

const (
	maxBackoff = 4
	// goneFraction divides SuspectAfter while the memory of the leader cannot be reached.
	goneFraction = 16
)

func newOracle(suspectAfter time.Duration, seed uint64) oracle {
	o := oracle{suspectAfter: suspectAfter, since: -1, gone: -1, random: seed}
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

// reached records whether operations on the memory of the leader succeed.
func (o *oracle) reached(now time.Duration, ok bool) {
	switch {
	case ok:
		o.gone, o.early = -1, false
	case o.gone < 0:
		o.gone = now
	}
}

// due returns the time at which a member with a rank stands, without further events.
func (o *oracle) due(now time.Duration, rank int) time.Duration {
	if o.since < 0 {
		o.since = now
	}
	late := o.since + o.wait(rank)
	if o.gone < 0 || o.early {
		return late
	}
	return min(late, max(o.since, o.gone)+o.wait(rank)/goneFraction)
}

// dueAgain returns the time at which a leader asks for a higher timestamp, without further events.
func (o *oracle) dueAgain(now time.Duration) time.Duration {
	if o.since < 0 {
		o.since = now
	}
	return o.since + o.wait(0)
}

// wait is the time that a member with a rank waits if the memory of the leader can be reached.
func (o *oracle) wait(rank int) time.Duration {
	return (o.suspectAfter*time.Duration(1+rank) + o.jitter) << o.backoff
}

// stood records an attempt.
func (o *oracle) stood(now time.Duration) {
	o.early = o.gone >= 0
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
