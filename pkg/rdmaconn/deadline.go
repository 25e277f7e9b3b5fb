package rdmaconn

import "time"

// deadline is a time that can be changed, and a channel that is closed once this time has passed. The
// connection's lock guards it.
type deadline struct {
	timer  *time.Timer
	closed chan struct{}
}

// over returns the channel of the deadline.
func (d *deadline) over() <-chan struct{} {
	if d.closed == nil {
		d.closed = make(chan struct{})
	}
	return d.closed
}

// set changes the deadline. The zero time means no deadline.
func (d *deadline) set(t time.Time) {
	d.over()
	if d.timer != nil && !d.timer.Stop() {
		<-d.closed // the timer has fired, and closes the channel without the lock
	}
	d.timer = nil
	if isDone(d.closed) {
		d.closed = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	closed := d.closed
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(closed) })
		return
	}
	close(closed)
}
