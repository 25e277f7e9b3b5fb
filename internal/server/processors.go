package server

import (
	"math"
	"runtime/metrics"
	"time"
)

const (
	// shortWaiting is the mean number of threads that wait for a processor, from which processors are short.
	shortWaiting = 0.3
	// shortDelay is the mean delay of goroutines that are ready to run, from which processors are short.
	shortDelay = 200 * time.Microsecond
	// longInterval is the length of an interval from which on its mean says nothing about the present.
	longInterval = time.Second
)

// processors measures whether the threads and goroutines of this process wait for processors. The waits also
// show load by other processes and limits of a container.
type processors struct {
	at      time.Time
	threads time.Duration // total time for which all threads have waited
	delays  []metrics.Sample
	counts  []uint64 // counters of the delays of goroutines at the last call
}

func newProcessors() *processors {
	return &processors{delays: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
}

// areShort reports whether processors were short since the last call; false if the last call is longer ago
// than longInterval.
func (p *processors) areShort() bool {
	now := time.Now()
	since, waited := now.Sub(p.at), threadsWaited()
	threads := float64(waited-p.threads) / float64(max(since, 1))
	p.at, p.threads = now, waited
	delay := p.delay()
	return since < longInterval && (threads >= shortWaiting || delay >= shortDelay)
}

// delay returns the mean delay of goroutines since the last call.
func (p *processors) delay() time.Duration {
	metrics.Read(p.delays)
	if p.delays[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := p.delays[0].Value.Float64Histogram()
	if len(p.counts) != len(h.Counts) {
		p.counts = make([]uint64, len(h.Counts))
	}
	count, sum := uint64(0), 0.0
	for i, n := range h.Counts {
		fresh := n - p.counts[i]
		p.counts[i] = n
		count += fresh
		if lowest := h.Buckets[i]; !math.IsInf(lowest, 0) {
			sum += float64(fresh) * lowest
		}
	}
	if count == 0 {
		return 0
	}
	return time.Duration(sum / float64(count) * float64(time.Second))
}
