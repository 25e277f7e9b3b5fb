package region

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds of hedging.
const (
	// minHedgeDelay is the shortest wait for an answer before another server is asked. With a shorter one the
	// pauses of a busy process would look like slow servers.
	minHedgeDelay = 2 * time.Millisecond
	// maxHedgeDelay is the longest wait, and the wait before the first hedgePeriod answers.
	maxHedgeDelay = 500 * time.Millisecond
	// hedgeShare is the largest part of the requests that may be sent twice, so that a group that is slow
	// under overload gets little additional load.
	hedgeShare = 0.05
	// hedgeBurst is the maximum number of requests that are sent twice in a row.
	hedgeBurst = 10
	// hedgeSamples is the number of answers from which the usual time is computed. It is computed again after
	// each hedgePeriod answers.
	hedgeSamples = 256
	hedgePeriod  = 32
)

// hedging measures the usual time of an answer of one group of servers, and limits the number of requests
// that are sent twice.
type hedging struct {
	mu      sync.Mutex
	last    [hedgeSamples]time.Duration // GUARDED_BY mu; ring of the times of the last answers
	samples int                         // GUARDED_BY mu; number of answers
	wait    time.Duration               // GUARDED_BY mu; the time without an answer until another server is asked
	credit  float64                     // GUARDED_BY mu; requests that may be sent twice, at most hedgeBurst
}

func newHedging() *hedging { return &hedging{wait: maxHedgeDelay, credit: hedgeBurst} }

// delay returns the wait of a new request before another server is asked.
func (h *hedging) delay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wait
}

// observe records the time of an answer. A request is sent twice after three times the time within which 80
// of 100 answers came. With a higher percentile, a server that is slow one time in ten would look like the
// usual case. The delay is smoothed, so that one bad moment does not switch hedging off.
func (h *hedging) observe(took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.credit = min(h.credit+hedgeShare, hedgeBurst)
	h.last[h.samples%hedgeSamples] = took
	if h.samples++; h.samples%hedgePeriod != 0 {
		return
	}
	sorted := h.last // a copy
	known := sorted[:min(h.samples, hedgeSamples)]
	slices.Sort(known)
	now := min(max(3*known[len(known)*80/100], minHedgeDelay), maxHedgeDelay)
	if h.samples == hedgePeriod {
		h.wait = now
	} else {
		h.wait = (3*h.wait + now) / 4
	}
}

// take reports whether a request may be sent twice.
func (h *hedging) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.credit < 1 {
		return false
	}
	h.credit--
	return true
}

// hedged asks candidates, the best first, until one returns a final answer: a value, or an error that is
// final because the other candidates would return it, too.
//
//   - After another error it asks the next candidate. If all fail, it returns the last error.
//   - If an answer takes longer than usual, and h permits it, hedged asks the next candidate at the same
//     time. The first final answer counts; hedged cancels the other request and waits for its end.
//
// So at most two goroutines call try at a time, and none does when hedged returns.
func hedged[C, T any](ctx context.Context, h *hedging, candidates []C,
	try func(context.Context, C) (T, error), final func(error) bool) (T, error) {
	began := time.Now()
	racing, end := context.WithCancel(ctx)
	defer end()
	r := race[C, T]{try: try, final: final, end: end, untried: candidates}
	var second sync.WaitGroup
	second.Add(1)
	timer := time.AfterFunc(h.delay(), func() {
		defer second.Done()
		if r.running() && h.take() {
			r.run(racing)
		}
	})
	r.run(racing)
	if timer.Stop() {
		second.Done()
	}
	second.Wait()
	if !r.over && ctx.Err() != nil {
		r.err = ctx.Err()
	}
	if r.over {
		h.observe(time.Since(began))
	}
	return r.value, r.err
}

// race is one call of hedged.
type race[C, T any] struct {
	try   func(context.Context, C) (T, error)
	final func(error) bool
	end   context.CancelFunc // ends the requests that still run when there is an answer

	mu      sync.Mutex
	untried []C   // GUARDED_BY mu; candidates without a request
	over    bool  // GUARDED_BY mu; value and err are the answer
	value   T     // GUARDED_BY mu
	err     error // GUARDED_BY mu; until it is over, the error of the last failure
}

// run asks one candidate after the other until the race is over or none is left.
func (r *race[C, T]) run(ctx context.Context) {
	for {
		c, ok := r.next(ctx)
		if !ok {
			return
		}
		r.note(r.try(ctx, c))
	}
}

func (r *race[C, T]) next(ctx context.Context) (c C, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || len(r.untried) == 0 || ctx.Err() != nil {
		return c, false
	}
	c, r.untried = r.untried[0], r.untried[1:]
	return c, true
}

func (r *race[C, T]) note(value T, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.err = err
	if err == nil || r.final(err) {
		r.over, r.value = true, value
		r.end()
	}
}

// running reports whether there is no answer yet, and a candidate is left.
func (r *race[C, T]) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.over && len(r.untried) > 0
}
