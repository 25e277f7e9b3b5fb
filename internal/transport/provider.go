package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// provider reaches the servers at other addresses: over framed connections or over gRPC.
type provider interface {
	// call calls a process at an address.
	call(ctx context.Context, to multicast.ProcessID, address string, request []byte) ([]byte, error)
	// packets opens a stream for the packets of links to an address.
	packets(ctx context.Context, address string) (packetStream, error)
	// rest waits until a new try of packets makes sense, at most until ctx ends.
	rest(ctx context.Context, address string)
	close() error
}

// packetStream carries packets to an address, in their order.
type packetStream interface {
	send(batch *wire.Batch) error
	// broken is closed when the stream has ended; then why returns the reason.
	broken() <-chan struct{}
	why() error
	// close may be called several times, and while send is under way, which then ends.
	close()
}

// directStream is a packetStream to which any goroutine can write without waiting.
type directStream interface {
	packetStream
	// isFree reports whether all that was sent before has left.
	isFree() bool
	// sendSoon sends a batch like send. Bytes that the peer does not take at once leave later.
	sendSoon(batch *wire.Batch) error
}

// oldPeerTime is the time without new attempts of the framed protocol at an address that speaks only HTTP/2.
const oldPeerTime = time.Minute

// fallback is a provider that uses the framed protocol, and gRPC for servers that do not speak it.
type fallback struct {
	framed, grpc provider

	mu  sync.Mutex
	old map[string]time.Time // GUARDED_BY mu; the end of the time as an old server, by address
}

func newFallback(cfg Config) *fallback {
	return &fallback{framed: newFramedProvider(cfg), grpc: newGRPCProvider(cfg), old: map[string]time.Time{}}
}

// isOld reports whether an address counts as an old server.
func (e *fallback) isOld(address string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.old) == 0 {
		return false
	}
	until, ok := e.old[address]
	if ok && time.Now().After(until) {
		delete(e.old, address)
		return false
	}
	return ok
}

// learn records an old server if err shows it.
func (e *fallback) learn(address string, err error) (old bool) {
	if !errors.Is(err, errOldPeer) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.old[address] = time.Now().Add(oldPeerTime)
	return true
}

func (e *fallback) call(ctx context.Context, to multicast.ProcessID, address string, request []byte) ([]byte, error) {
	if !e.isOld(address) {
		reply, err := e.framed.call(ctx, to, address, request)
		if err == nil || !e.learn(address, err) {
			return reply, err
		}
	}
	return e.grpc.call(ctx, to, address, request)
}

func (e *fallback) packets(ctx context.Context, address string) (packetStream, error) {
	if !e.isOld(address) {
		stream, err := e.framed.packets(ctx, address)
		if err == nil || !e.learn(address, err) {
			return stream, err
		}
	}
	return e.grpc.packets(ctx, address)
}

func (e *fallback) rest(ctx context.Context, address string) {
	if e.isOld(address) {
		e.grpc.rest(ctx, address)
	} else {
		e.framed.rest(ctx, address)
	}
}

func (e *fallback) close() error { return errors.Join(e.framed.close(), e.grpc.close()) }
