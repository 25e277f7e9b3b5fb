package server

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/driver"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// counts has the measurements of a replica. They continue when the replica restarts.
type counts struct {
	queries, updates, appends, syncs metrics.Durations
	longFrames                       atomic.Uint64
}

// answered counts an answered request.
func (c *counts) answered(kind ask.Kind, took time.Duration) {
	switch kind {
	case ask.Query:
		c.queries.Observe(took)
	case ask.Update:
		c.updates.Observe(took)
	}
}

// timedLog measures the durations of a log's operations.
type timedLog struct {
	driver.Log
	appends *metrics.Durations
	syncs   *metrics.Durations
}

// Append implements driver.Log.
func (l timedLog) Append(records [][]byte, checkpoint bool) error {
	began := time.Now()
	defer func() { l.appends.Observe(time.Since(began)) }()
	return l.Log.Append(records, checkpoint)
}

// Sync implements driver.Log.
func (l timedLog) Sync() error {
	began := time.Now()
	defer func() { l.syncs.Observe(time.Since(began)) }()
	return l.Log.Sync()
}

// countedLinks counts and logs frames that exceed the maximum length. They are a bug of this program, and
// each of them restarts its link.
type countedLinks struct {
	transport.Links
	count  *atomic.Uint64
	logger *slog.Logger
}

// Send implements transport.Links.
func (l countedLinks) Send(to multicast.ProcessID, frame []byte) error {
	err := l.Links.Send(to, frame)
	if errors.Is(err, transport.ErrTooLong) {
		l.count.Add(1)
		l.logger.Error("a frame was dropped, and its link starts again: report this as a bug", "error", err)
	}
	return err
}

// scrapePatience is the time limit for the status of the replicas in one report of metrics.
const scrapePatience = time.Second

// Metrics reports the metrics of this server.
func (s *Server) Metrics(report metrics.Report) {
	if storage := s.Storage(); storage != nil {
		storage.Metrics(report)
	}
	region := ""
	if self := s.plan.Load().Server(s.cfg.Name); self != nil {
		region = string(self.Region)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	for _, status := range s.Replicas(ctx) {
		labels := []string{region, s.cfg.Name, strconv.Itoa(int(status.Partition))}
		report.Value(metrics.ReplicaLeads, oneIf(status.Leads), labels...)
		report.Value(metrics.ReplicaSeated, oneIf(status.Seated), labels...)
		report.Value(metrics.ReplicaApplied, float64(status.Applied), labels...)
		report.Value(metrics.ReplicaUndecided, float64(status.Undecided), labels...)
		report.Value(metrics.ReplicaHistories, float64(status.Histories), labels...)
		report.Value(metrics.ReplicaMalformed, float64(status.Malformed), labels...)
		report.Value(metrics.ReplicaAge, status.Age.Seconds(), labels...)
	}
	for _, r := range s.residences() {
		h, trouble := r.hosted.Load(), r.trouble.Load()
		labels := []string{region, s.cfg.Name, strconv.Itoa(int(h.partition))}
		report.Durations(metrics.ReplicaRequests, &h.counts.queries, append(labels, "query")...)
		report.Durations(metrics.ReplicaRequests, &h.counts.updates, append(labels, "update")...)
		report.Durations(metrics.ReplicaAppends, &h.counts.appends, labels...)
		report.Durations(metrics.ReplicaSyncs, &h.counts.syncs, labels...)
		report.Value(metrics.ReplicaStopped, oneIf(trouble != nil), labels...)
		report.Value(metrics.ReplicaAmnesiac, oneIf(h.amnesiac.Load()), labels...)
		report.Value(metrics.ReplicaDamaged, 0, labels...)
		report.Value(metrics.ReplicaLongFrames, float64(h.counts.longFrames.Load()), labels...)
	}
	s.reportMemories(ctx, region, report)
	for _, d := range s.Damaged() {
		report.Value(metrics.ReplicaDamaged, 1, region, s.cfg.Name, strconv.Itoa(int(d.Partition)))
	}
}

// reportMemories reports the order of each replica, and the state of its one-sided memory.
func (s *Server) reportMemories(ctx context.Context, region string, report metrics.Report) {
	plan := s.plan.Load()
	for _, r := range s.residences() {
		h := r.hosted.Load()
		labels := []string{region, s.cfg.Name, strconv.Itoa(int(h.partition))}
		report.Value(metrics.ReplicaOrder, 1, append(labels, string(plan.OrderOf(&plan.Partitions[h.partition])))...)
		status := make(chan *MemoryStatus, 1)
		if h.memory == nil || h.driver.Between(ctx, func() { status <- h.memory.status() }) != nil {
			continue // no memory, or the replica is busy
		}
		m := <-status
		report.Value(metrics.ReplicaMemorySlots, float64(m.Slots), labels...)
		report.Value(metrics.ReplicaMemoryUsed, float64(m.Used), labels...)
		report.Value(metrics.ReplicaMemoryCredits, float64(m.Credits), labels...)
		report.Value(metrics.ReplicaMemoryRevocations, float64(m.Revocations), labels...)
		counts := map[string]int{transport.FabricTCP: 0, transport.FabricShm: 0, FabricVerbs: 0}
		for _, kind := range m.Fabrics {
			counts[kind]++
		}
		for kind, n := range counts {
			report.Value(metrics.ReplicaMemoryConnections, float64(n), append(labels, kind)...)
		}
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
