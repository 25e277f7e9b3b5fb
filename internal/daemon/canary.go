package daemon

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
)

// A canary is a read that each server sends to each partition regularly, and that a majority of the
// partition's replicas must order. It detects a partition that takes no updates, even an unused one. It also
// makes an idle partition without a leader elect one.

const (
	// canaryPatience is the time limit for the answer to a canary.
	canaryPatience = 10 * time.Second
	// canaryLeast is the minimum time between two canaries of a server to a partition; it applies in a small
	// cluster.
	canaryLeast = 10 * time.Second
	// canaryShare is the minimum mean time between two canaries to a partition from all servers together.
	canaryShare = time.Second
	// canaryAgain is the time between a canary without an answer and the next one.
	canaryAgain = time.Second
)

// canaryEvery returns the time between two canaries of a server to a partition: it grows with the number of
// servers, so that the canaries of all servers stay a small load.
func canaryEvery(servers int) time.Duration {
	return max(canaryLeast, time.Duration(servers)*canaryShare)
}

// Unanswered is a partition that does not answer the canaries of a server.
type Unanswered struct {
	Partition uint16 `json:"partition"`
	ForMS     int64  `json:"for_ms"` // since the first unanswered canary was sent
	Error     string `json:"error"`  // of the last one
}

// canaries sends the canaries of one server.
type canaries struct {
	ask     func(ctx context.Context, partition uint16) error // returns nil once the partition has answered
	servers func() int                                        // of the cluster

	mu     sync.Mutex
	failed map[uint16]failedCanary // GUARDED_BY mu; by partition
}

type failedCanary struct {
	since time.Time
	text  string
}

func newCanaries(ask func(context.Context, uint16) error, servers func() int) *canaries {
	return &canaries{ask: ask, servers: servers, failed: map[uint16]failedCanary{}}
}

// run sends canaries to a partition until ctx ends.
func (c *canaries) run(ctx context.Context, partition uint16) {
	every := canaryEvery(c.servers())
	for err := pause.Between(ctx, 0, every); err == nil; {
		if c.send(ctx, partition) {
			every = canaryEvery(c.servers())
			err = pause.Between(ctx, 3*every/4, every)
		} else {
			err = pause.For(ctx, canaryAgain)
		}
	}
}

// send sends one canary, and reports whether it was answered.
func (c *canaries) send(ctx context.Context, partition uint16) bool {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, canaryPatience)
	defer cancel()
	err := c.ask(bounded, partition)
	if ctx.Err() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failed, partition)
		return true
	}
	failed, again := c.failed[partition]
	if !again {
		failed.since = began
	}
	failed.text = err.Error()
	c.failed[partition] = failed
	return false
}

// unanswered returns the partitions with a failed last canary.
func (c *canaries) unanswered() (all []Unanswered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, f := range c.failed {
		all = append(all, Unanswered{Partition: partition, ForMS: time.Since(f.since).Milliseconds(), Error: f.text})
	}
	slices.SortFunc(all, func(a, b Unanswered) int { return int(a.Partition) - int(b.Partition) })
	return all
}

// report reports for each partition the time since its first unanswered canary from the server self.
func (c *canaries) report(to metrics.Report, self *topology.Server, partitions int) {
	if self == nil {
		return
	}
	silent := map[uint16]float64{}
	for _, u := range c.unanswered() {
		silent[u.Partition] = float64(u.ForMS) / 1000
	}
	for p := range uint16(partitions) {
		to.Value(metrics.PartitionUnanswered, silent[p], string(self.Region), self.Name, strconv.Itoa(int(p)))
	}
}
