package client

import (
	"context"
	"math"
	"time"
)

// Constants of the pace of a log.
const (
	// batchDelay is the time for which operations are collected before a batch is sent. While the batches
	// have more than fewOps operations, the time grows up to maxBatchDelay, because an ordered command costs
	// as much as tens of operations in a batch.
	batchDelay    = 5 * time.Millisecond
	maxBatchDelay = 20 * time.Millisecond
	fewOps        = 2
	// shareDelay is the time for which waiting callers share the next batch while another batch is under way.
	// The next batch is sent when the other batch is acknowledged, at the latest shareDelay after the other
	// batch was sent.
	shareDelay = 5 * time.Millisecond
	// countEvery is the number of appended operations after which the log checks whether a batch is full.
	countEvery = 32
)

// pace decides when a log sends its next batch. The zero value is the pace of a new log. Calls must not be
// concurrent.
type pace struct {
	grown time.Duration // the delay minus batchDelay
	since time.Time     // when the present oldest unsent operation became the oldest
	last  time.Time     // when the last batch was sent
}

// launched records the sending of a batch of n operations, and adapts the delay.
func (p *pace) launched(n int) {
	p.since = time.Now()
	p.last = p.since
	if delay := p.delay(); n > fewOps {
		p.grown = min(2*delay, maxBatchDelay) - batchDelay
	} else {
		p.grown = max(delay/2, batchDelay) - batchDelay
	}
}

// delay returns the time for which operations are collected.
func (p *pace) delay() time.Duration { return batchDelay + p.grown }

// due returns the time until the next batch of a log. The caller holds delegations.mu.
func (l *logOf) due() time.Duration {
	_, enough := l.log.Unsent()
	switch {
	case enough, l.ended, l.wanted > l.log.Sent() && l.log.Flying() == 0:
		return 0
	case l.wanted > l.log.Sent():
		return time.Until(l.pace.last.Add(shareDelay))
	}
	return time.Until(l.pace.since.Add(l.pace.delay()))
}

// appended wakes the sender after an operation was appended. The caller holds delegations.mu.
func (l *logOf) appended() {
	switch unsent := l.log.Last() - l.log.Sent(); {
	case unsent == 1:
		l.pace.since = time.Now()
	case unsent%countEvery == 0 && l.due() <= 0:
		signal(l.hurry)
	}
	signal(l.work)
}

// collect waits until the next batch of a log is due.
func (d *delegations) collect(life context.Context, l *logOf) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		d.mu.Lock()
		due := l.due()
		d.mu.Unlock()
		if due <= 0 {
			return
		}
		timer.Reset(due)
		select {
		case <-timer.C:
		case <-l.hurry:
		case <-life.Done():
			return
		}
	}
}
