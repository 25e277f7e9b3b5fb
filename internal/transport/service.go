package transport

import (
	"context"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/buffers"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// service is the part of an endpoint that handles calls: it runs the handler of its process, and cancels the
// calls that the process makes when it closes.
type service struct {
	self   multicast.ProcessID
	ctx    context.Context // ends with the service
	cancel context.CancelFunc

	mu      sync.Mutex
	handler Handler // nil until it serves
	forgets bool    // the handler keeps no reference to requests and replies
	later   Asynchronous
	streams StreamHandler // nil: none
	closed  bool
	running sync.WaitGroup // handlers; grows only while not closed
}

func newService(self multicast.ProcessID) *service {
	s := &service{self: self}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve implements Endpoint.Serve.
func (s *service) Serve(h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(s.handler == nil, "process %d serves twice", s.self)
	s.handler = h
}

// ServeAndForget implements Endpoint.ServeAndForget.
func (s *service) ServeAndForget(h Handler) {
	s.Serve(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgets = true
}

// giveBack returns the memory of a finished call for reuse, if the handler keeps no reference to it.
func (s *service) giveBack(call, reply []byte) {
	s.mu.Lock()
	forgets := s.forgets
	s.mu.Unlock()
	if forgets {
		buffers.Give(call)
		buffers.Give(reply)
	}
}

// ServeLater implements Endpoint.ServeLater.
func (s *service) ServeLater(a Asynchronous) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.later = a
}

// ServeStreams implements Streams.ServeStreams.
func (s *service) ServeStreams(h StreamHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = h
}

// streamHandler returns the handler of streams; nil: there is none.
func (s *service) streamHandler() StreamHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return s.streams
}

// asynchronous returns the Asynchronous of the process, nil if there is none or the process does not serve.
func (s *service) asynchronous() Asynchronous {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.handler == nil {
		return nil
	}
	return s.later
}

// begin returns the handler, if there is one, and counts it as running.
func (s *service) begin() Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.handler == nil {
		return nil
	}
	s.running.Add(1)
	return s.handler
}

// answer runs the handler. Its context is ctx, and ends when the service closes.
func (s *service) answer(ctx context.Context, request []byte) ([]byte, error) {
	h := s.begin()
	if h == nil {
		return nil, unreachable(s.self, "it does not serve")
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return s.result(h(ctx, request))
}

// result converts the results of the handler to the answer for the caller.
func (s *service) result(reply []byte, err error) ([]byte, error) {
	switch {
	case err != nil && s.ctx.Err() != nil:
		return nil, unreachable(s.self, "it stops")
	case err != nil:
		text := err.Error()
		return nil, &RemoteError{Text: text[:min(len(text), maxErrorText)]}
	case len(reply) > MaxCall:
		return nil, &RemoteError{Text: fmt.Sprintf("the reply of %d bytes is longer than %d", len(reply), MaxCall)}
	}
	return reply, nil
}

// call runs ask, which must heed its context, for this process. The context ends with the service.
func (s *service) call(ctx context.Context, request []byte, ask func(context.Context) ([]byte, error)) ([]byte, error) {
	if len(request) > MaxCall {
		return nil, fmt.Errorf("a request of %d bytes cannot be sent: the longest has %d", len(request), MaxCall)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	reply, err := ask(ctx)
	if s.ctx.Err() != nil {
		return nil, fmt.Errorf("process %d: %w", s.self, ErrClosed)
	}
	return reply, err
}

// close returns when no handler runs any more.
func (s *service) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// abandon runs ask, which may not heed its context, and stops waiting for it when the context ends.
func abandon(ctx context.Context, ask func() ([]byte, error)) ([]byte, error) {
	type outcome struct {
		reply []byte
		err   error
	}
	answered := make(chan outcome, 1)
	go func() {
		reply, err := ask()
		answered <- outcome{reply, err}
	}()
	select {
	case o := <-answered:
		if ctx.Err() == nil {
			return o.reply, o.err
		}
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}
