package serve

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// MaxRequest is the size of the largest read and write requests, in bytes: one block.
const MaxRequest = 1 << 20

// readBuffer fits the largest request: one of MaxRequest bytes to write.
const readBuffer = MaxRequest + 4<<10

// smallRequest is the size up to which a request is copied out of the reader's buffer.
const smallRequest = 4 << 10

// shift is the period from the begin of reading to a pause, or to the end of the connection.
type shift struct {
	*server
	pauses uint64 // number of pauses before this shift
	why    chan error
	loops  sync.WaitGroup
	idle   atomic.Int32 // loops that wait for a request, or are about to
}

// shift begins a shift, and first handles the postponed requests.
func (s *server) shift(postponed []*request) *shift {
	t := &shift{server: s, pauses: s.conn.pauses.Load(), why: make(chan error, 1)}
	t.idle.Store(1)
	t.loops.Go(t.loop)
	for _, r := range postponed {
		t.loops.Go(func() { t.serve(r) })
	}
	return t
}

// wait returns when all requests that were read are answered or postponed, and reading has ended. If the
// connection has ended, wait calls ended before: there are no programs that wait for answers then.
func (t *shift) wait(ended func()) error {
	err := <-t.why
	if !errors.Is(err, errPaused) {
		ended()
	}
	t.loops.Wait()
	return err
}

// loop reads a request, ensures that another loop reads, and answers the request. Several waiting loops save
// the start of goroutines; more waiting loops than processors only take memory.
func (t *shift) loop() {
	for {
		r, err := t.read(t.pauses)
		if err != nil {
			select {
			case t.why <- err:
			default: // all end for the same reason
			}
			return
		}
		if t.idle.Add(-1) == 0 && !r.unanswered() {
			t.idle.Add(1)
			t.loops.Go(t.loop)
		}
		t.serve(r)
		if int(t.idle.Add(1)) > max(2, runtime.GOMAXPROCS(0)) {
			t.idle.Add(-1)
			return
		}
	}
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readBuffer); return &b }}

// read reads one request.
func (s *server) read(pauses uint64) (*request, error) {
	buf := readBuffers.Get().(*[]byte)
	n, err := s.conn.read(*buf, pauses)
	switch {
	case err != nil:
		return nil, err
	case n < inHeaderSize:
		return nil, fmt.Errorf("/dev/fuse: a request of %d bytes", n)
	case n > smallRequest:
		return &request{raw: (*buf)[:n:n], buffer: buf}, nil
	}
	defer readBuffers.Put(buf)
	return &request{raw: append([]byte(nil), (*buf)[:n]...)}, nil
}
