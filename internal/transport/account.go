package transport

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/wire"
)

// minCharge is what the smallest request counts for, in bytes.
const minCharge = 1 << 10

// account is what one client or admin has at a server, over all its connections.
type account struct {
	limits limits
	conns  int // guarded by gate.mu

	open    atomic.Int64        // calls that gRPC knows of
	reading *semaphore.Weighted // bytes of requests that are being read or answered
	calls   *rate.Limiter       // nil: as many as it likes
}

func newAccount(role identity.Role, l limits) *account {
	a := &account{limits: l, reading: semaphore.NewWeighted(l.bytes)}
	if role == identity.Client {
		a.calls = rate.NewLimiter(rate.Limit(l.callsPerSecond), l.callsPerSecond)
	}
	return a
}

// admitCall is asked by gRPC before it takes in a call, and must not block. What of the request arrives
// before somebody reads it is bounded by the window of its stream, so the number of calls has to be.
func admitCall(ctx context.Context, _ *tap.Info) (context.Context, error) {
	info := infoOf(ctx)
	if info == nil || info.account == nil {
		return ctx, nil
	}
	a := info.account
	if a.open.Add(1) > a.limits.calls {
		a.open.Add(-1)
		return ctx, status.Errorf(codes.ResourceExhausted, "%s has %d calls under way here, more are refused", info.identity.Name, a.limits.calls)
	}
	context.AfterFunc(ctx, func() { a.open.Add(-1) })
	return ctx, nil
}

// charge waits until the client may have its next request read, and reads it. It is gone when done is called.
func (a *account) charge(ctx context.Context, read func() (size int, err error)) (done func(), err error) {
	if a.calls != nil {
		if err := a.calls.Wait(ctx); err != nil {
			return nil, status.Error(codes.DeadlineExceeded, "too many calls: its turn does not come before its deadline")
		}
	}
	if err := a.reading.Acquire(ctx, MaxCall); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	size, err := read()
	if err != nil {
		a.reading.Release(MaxCall)
		return nil, err
	}
	held := int64(min(max(size, minCharge), MaxCall))
	a.reading.Release(MaxCall - held)
	return func() { a.reading.Release(held) }, nil
}

// handleCall is the generated handler of Call, but that a client's request is read only when it is the
// client's turn.
func (s *Server) handleCall(ctx context.Context, read func(any) error) (any, error) {
	request := new(wire.CallRequest)
	if info := infoOf(ctx); info != nil && info.account != nil {
		done, err := info.account.charge(ctx, func() (int, error) {
			err := read(request)
			return len(request.GetRequest()), err
		})
		if err != nil {
			return nil, err
		}
		defer done()
	} else if err := read(request); err != nil {
		return nil, err
	}
	return s.Call(ctx, request)
}
