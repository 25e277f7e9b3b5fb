package shm

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// guardEvery is the interval of the guard's checks: the time for which operations of peers may stay in the
// rings after the application has stopped calling Wait and Poll.
const guardEvery = time.Millisecond

// look moves the bytes of all links. It reports whether there are events or changed regions, so that Wait
// must return. The caller holds the lock.
func (e *Endpoint) look() bool {
	e.looks++
	for _, in := range e.incoming {
		in.move()
	}
	for _, o := range e.outgoing {
		o.move()
	}
	return e.changed || e.events.Any()
}

// Poll implements fabric.Endpoint.
func (e *Endpoint) Poll(into *fabric.Events) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.look()
	into.Completions = append(into.Completions, e.events.Completions...)
	into.Landed = append(into.Landed, e.events.Landed...)
	e.events.Reset()
}

// Wait implements fabric.Endpoint. It polls the rings for Config.Spin at most before it sleeps.
func (e *Endpoint) Wait(atMost time.Duration) {
	start := time.Now()
	if e.lookOnce(e.spin == 0) || e.spinFor(min(e.spin, atMost), start) || e.lookOnce(true) {
		return
	}
	left := atMost - time.Since(start)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-e.wake:
			if e.lookOnce(true) {
				if time.Since(start) < e.cfg.Spin {
					e.spin = e.cfg.Spin // a longer poll would have found the event
				}
				return
			}
		case <-timer.C:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// lookOnce reads the rings once, and reports whether Wait must return. sleep says that no poll follows, so
// that peers must send bells.
func (e *Endpoint) lookOnce(sleep bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asleep && !sleep && !e.guarded {
		e.guarded = true
		select {
		case e.awake <- struct{}{}:
		default:
		}
	}
	e.asleep = sleep
	found := e.look()
	e.changed = false
	return found
}

// spinFor polls the rings until an event arrives or the time most is over, and reports whether there was an
// event. Without an event it halves e.spin, the time of the next poll. Only the caller of Wait uses e.spin.
func (e *Endpoint) spinFor(most time.Duration, start time.Time) bool {
	if most == 0 {
		return false
	}
	for time.Since(start) < most {
		for range 16 {
			if e.lookOnce(false) {
				e.spin = e.cfg.Spin
				return true
			}
		}
	}
	e.spin = max(e.spin/2, e.cfg.Spin/16, 1)
	return false
}

// guard executes operations of peers if the application does not call Wait or Poll any more.
func (e *Endpoint) guard() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-e.awake:
			ticker.Reset(guardEvery)
		case <-ticker.C:
			if e.goneAway() {
				ticker.Reset(time.Hour)
			}
		case <-e.ctx.Done():
			return
		}
	}
}

// goneAway reports whether no caller polls the rings. It counts the polls since its last call. If there was
// none, peers must send bells from now on.
func (e *Endpoint) goneAway() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks == 0 { // no poll since the last call
		e.asleep = true
		e.look()
		e.tell()
	}
	e.looks = 0
	e.guarded = !e.asleep
	return e.asleep
}
