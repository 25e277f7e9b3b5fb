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

// minCharge is the charge of the smallest request, in bytes.
const minCharge = 1 << 10

// account has the resources of one client or admin at a server, over all its connections. It is kept after
// the last connection until it equals a new account, so a client that reconnects gets no more than a client
// that stays.
type account struct {
	limits  limits
	conns   int  // GUARDED_BY guests.mu
	leaving bool // GUARDED_BY guests.mu; the account has no connection, and a check for its removal is scheduled

	open    atomic.Int64        // calls that gRPC has taken in
	reading *semaphore.Weighted // bytes of requests that are being read or answered
	replies *semaphore.Weighted // bytes of long replies that are being sent
	calls   *rate.Limiter       // nil: no limit
}

// Bounds of long replies: at most maxReplies bytes of long replies wait until a client has taken them.
const (
	longReply  = 64 << 10
	maxReplies = 128 << 20
)

// tooManyReplies is the refusal of a call with a long reply beyond maxReplies.
const tooManyReplies = "too many long replies wait for this client"

// reserve reports whether a long reply may wait for the client. If so, release must be called.
func (a *account) reserve(reply int) bool {
	return a == nil || reply < longReply || a.replies.TryAcquire(int64(reply))
}

// release ends the wait of a reply.
func (a *account) release(reply int) {
	if a != nil && reply >= longReply {
		a.replies.Release(int64(reply))
	}
}

// wait blocks until the rate of the client permits a call. held is true while it blocks.
func (a *account) wait(ctx context.Context, held *atomic.Bool) error {
	if a.calls == nil {
		return nil
	}
	held.Store(true)
	defer held.Store(false)
	return a.calls.Wait(ctx)
}

func newAccount(role identity.Role, l limits) *account {
	a := &account{limits: l, reading: semaphore.NewWeighted(l.bytes), replies: semaphore.NewWeighted(maxReplies)}
	if role == identity.Client {
		a.calls = rate.NewLimiter(rate.Limit(l.callsPerSecond), l.callsPerSecond)
	}
	return a
}

// isUnused reports whether the account equals a new one: no call is under way, and the rate has no debt.
func (a *account) isUnused() bool {
	if a.open.Load() > 0 || a.calls != nil && a.calls.Tokens() < float64(a.calls.Burst()) || !a.reading.TryAcquire(a.limits.bytes) {
		return false
	}
	a.reading.Release(a.limits.bytes)
	return true
}

// admitCall is called by gRPC before it accepts a call, and must not block. It bounds the number of calls:
// each call may have one window of unread bytes in memory.
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

// charge waits until the next request of the client may be read, and reads it with read. The caller calls
// done when the request is finished.
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

// admit waits until a request of size bytes of the client may be read, for the framed protocol. The caller
// passes held to leave at the end of the call. A nil account belongs to a server, which has no bounds.
func (a *account) admit(ctx context.Context, size int) (held int64, err error) {
	if a == nil {
		return 0, nil
	}
	if a.calls != nil {
		if err := a.calls.Wait(ctx); err != nil {
			return 0, err
		}
	}
	held = int64(min(max(size, minCharge), MaxCall))
	return held, a.reading.Acquire(ctx, held)
}

// leave ends a call that was counted in open, and returns the bytes that admit has held for it.
func (a *account) leave(held int64) {
	if a == nil {
		return
	}
	if held > 0 {
		a.reading.Release(held)
	}
	a.open.Add(-1)
}

// handleCall replaces the generated handler of Call. It reads the request of a client only when the account
// of the client permits it.
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
