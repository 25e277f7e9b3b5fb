package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/pause"
)

// ClientRates limit the requests of each bound client to the replicas of a server per second; 0: no limit.
// After a pause a client may send the requests of two seconds at once.
type ClientRates struct {
	Updates float64 // updates, and changes of sessions
	Calls   float64 // requests of all kinds
	Bytes   float64 // bytes of updates; logs and metadata grow by about as much
}

// patientFor is the maximum time for which a server delays a request. If a longer delay is necessary, the
// client must try again, at this or another replica.
const patientFor = time.Second

// maxRated is the number of remembered clients from which on idle ones are forgotten.
const maxRated = 4096

// rates delay the requests of bound clients.
type rates struct {
	limits ClientRates

	mu      sync.Mutex
	clients map[string]*clientRate // GUARDED_BY mu; by name
}

// clientRate is the remaining allowance of one client.
type clientRate struct {
	updates, calls, bytes *rate.Limiter

	lastLogged atomic.Int64 // when a message about this client was last logged, in Unix seconds
}

func newRates(limits ClientRates) *rates {
	return &rates{limits: limits, clients: map[string]*clientRate{}}
}

func limiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))
}

// of returns the rate of a client.
func (r *rates) of(client string) *clientRate {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clients[client]
	if c == nil {
		if len(r.clients) >= maxRated {
			r.forget()
		}
		c = &clientRate{updates: limiter(r.limits.Updates), calls: limiter(r.limits.Calls), bytes: limiter(r.limits.Bytes)}
		r.clients[client] = c
	}
	return c
}

// forget drops clients with a full allowance, which equals that of a new client. The caller holds mu.
func (r *rates) forget() {
	full := func(l *rate.Limiter) bool { return l.Limit() == rate.Inf || l.Tokens() >= float64(l.Burst()) }
	for name, c := range r.clients {
		if full(c.updates) && full(c.calls) && full(c.bytes) {
			delete(r.clients, name)
		}
	}
}

// isNews reports whether a message about a client may be logged: the last one is at least a minute old. It
// records the present time then.
func (r *rates) isNews(client string) bool {
	c, now := r.of(client), time.Now().Unix()
	last := c.lastLogged.Load()
	return now-last >= 60 && c.lastLogged.CompareAndSwap(last, now)
}

// proofsPerCall is the number of proofs that cost a replica about as much as one call.
const proofsPerCall = 8

// wait blocks until a request with a size in bytes and a number of proofs may be executed. It returns false
// if that takes longer than patientFor, or if ctx ends.
func (r *rates) wait(ctx context.Context, client string, kind ask.Kind, size, proofs int) bool {
	c, now := r.of(client), time.Now()
	take := func(from *rate.Limiter, n int) *rate.Reservation {
		return from.ReserveN(now, min(n, max(1, from.Burst())))
	}
	taken := []*rate.Reservation{take(c.calls, 1+proofs/proofsPerCall)}
	if !kind.IsWithoutSession() {
		taken = append(taken, take(c.updates, 1), take(c.bytes, size))
	}
	delay := time.Duration(0)
	for _, t := range taken {
		delay = max(delay, t.DelayFrom(now))
	}
	if delay <= patientFor {
		return delay == 0 || pause.For(ctx, delay) == nil
	}
	for _, t := range taken {
		t.CancelAt(now)
	}
	return false
}
