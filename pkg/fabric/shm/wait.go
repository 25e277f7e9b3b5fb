package shm

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// guardEvery is how long operations of peers may stay in the rings because the caller of Wait, who looked
// into them, does something else.
const guardEvery = time.Millisecond

// look moves the bytes of all links. It reports whether Wait has something to tell. The caller holds the
// lock.
func (e *Endpoint) look() bool {
	e.looks++
	for _, in := range e.incoming {
		if in.dead {
			continue
		}
		if err := in.settle(e.asleep); err != nil {
			in.failure = err
			in.close() // its goroutine ends
		}
	}
	for _, o := range e.outgoing {
		if l := o.link; l != nil && l.settle(e.asleep) != nil {
			o.lose(l)
		}
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

// Wait implements fabric.Endpoint. It looks into the rings for a while before it sleeps (Config.Spin).
func (e *Endpoint) Wait(atMost time.Duration) {
	start := time.Now()
	if e.tell(e.spin == 0) || e.spinFor(min(e.spin, atMost), start) || e.tell(true) {
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
			if e.tell(true) {
				if time.Since(start) < e.cfg.Spin {
					e.spin = e.cfg.Spin // a longer look would have been enough
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

// tell looks once, and says whether to sleep after that.
func (e *Endpoint) tell(sleep bool) bool {
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

// spinFor looks for a while. The time is shorter after vain attempts, until one would have succeeded. Only
// the caller of Wait uses e.spin.
func (e *Endpoint) spinFor(most time.Duration, start time.Time) bool {
	if most == 0 {
		return false
	}
	for time.Since(start) < most {
		for range 16 {
			if e.tell(false) {
				e.spin = e.cfg.Spin
				return true
			}
		}
	}
	e.spin = max(e.spin/2, e.cfg.Spin/16, 1)
	return false
}

// guard executes operations of peers if the caller of Wait does not come back to the rings.
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

// goneAway reports whether nobody looks into the rings, and then lets peers ring.
func (e *Endpoint) goneAway() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks == 0 { // not since the last call
		e.asleep = true
		e.look()
	}
	e.looks = 0
	e.guarded = !e.asleep
	return e.asleep
}
