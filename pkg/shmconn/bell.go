package shmconn

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// bell wakes the other end of a connection. Each end has its own bell.
type bell interface {
	// ring wakes the other end if the other end waits. ring does not block.
	ring()
	// wait returns when ready is true. It calls ready now and after each ring. Errors: io.EOF after the end
	// of the other side, os.ErrDeadlineExceeded, net.ErrClosed.
	wait(ready func() bool) error
	SetReadDeadline(t time.Time) error // of wait
	Close() error
}

// localBell is a bell within a process.
type localBell struct {
	own, far    chan struct{} // capacity 1: one ring
	end, farEnd chan struct{} // closed by Close
	once        sync.Once

	mu       sync.Mutex
	late     chan struct{} // GUARDED_BY mu; closed at the deadline
	deadline *time.Timer   // GUARDED_BY mu; nil: none
}

// localBells returns both sides of a bell.
func localBells() (a, b *localBell) {
	x, y := make(chan struct{}, 1), make(chan struct{}, 1)
	p, q := make(chan struct{}), make(chan struct{})
	a = &localBell{own: x, far: y, end: p, farEnd: q, late: make(chan struct{})}
	b = &localBell{own: y, far: x, end: q, farEnd: p, late: make(chan struct{})}
	return a, b
}

func (l *localBell) ring() {
	select {
	case l.far <- struct{}{}:
	default:
	}
}

func (l *localBell) wait(ready func() bool) error {
	for !ready() {
		l.mu.Lock()
		late := l.late
		l.mu.Unlock()
		select {
		case <-l.own:
		case <-l.farEnd:
			return io.EOF
		case <-l.end:
			return net.ErrClosed
		case <-late:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

func (l *localBell) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline != nil {
		l.deadline.Stop()
	}
	select {
	case <-l.late:
		l.late = make(chan struct{})
	default:
	}
	late := l.late
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(late)
	default:
		l.deadline = time.AfterFunc(left, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.late == late {
				close(late)
			}
		})
	}
	return nil
}

func (l *localBell) Close() error {
	l.once.Do(func() { close(l.end) })
	return nil
}
