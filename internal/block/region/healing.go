package region

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/pause"
)

// Healing is the configuration by which a server keeps its region whole.
type Healing struct {
	PingInterval time.Duration // a server that was silent for this time is pinged
	DownAfter    time.Duration // a server that was silent for this time is down: others stand in for it
	// RepairInterval is the time between two repair rounds. A round begins earlier when members or the
	// servers that are down have changed. The pause between two rounds is never shorter than RepairPause, or
	// than restPart times the duration of the last round. A round that failed is repeated after RepairPause,
	// then after twice that, and so on.
	RepairInterval time.Duration
	RepairPause    time.Duration
	RepairBytes    int           // the maximum number of bytes per second that a round moves
	ScrubPause     time.Duration // between two scrubs of the disk
	ScrubBytes     int           // the maximum number of bytes per second that a scrub reads
}

// DefaultHealing returns a configuration for real clusters.
func DefaultHealing() Healing {
	return Healing{
		PingInterval: 2 * time.Second, DownAfter: time.Minute,
		RepairInterval: 10 * time.Minute, RepairPause: 5 * time.Second, RepairBytes: 64 << 20,
		ScrubPause: 24 * time.Hour, ScrubBytes: 8 << 20,
	}
}

// Validate returns an error with the wrong field.
func (h *Healing) Validate() error {
	for name, d := range map[string]time.Duration{
		"PingInterval": h.PingInterval, "DownAfter": h.DownAfter, "RepairInterval": h.RepairInterval,
		"RepairPause": h.RepairPause, "ScrubPause": h.ScrubPause,
	} {
		if d <= 0 {
			return fmt.Errorf("healing: %s is %v: use DefaultHealing", name, d)
		}
	}
	switch {
	case h.DownAfter < 2*h.PingInterval:
		return fmt.Errorf("healing: DownAfter %v: use two times PingInterval (%v) at least", h.DownAfter, h.PingInterval)
	case h.RepairPause > h.RepairInterval:
		return fmt.Errorf("healing: RepairPause %v is longer than RepairInterval %v", h.RepairPause, h.RepairInterval)
	case h.RepairBytes <= 0 || h.ScrubBytes <= 0:
		return fmt.Errorf("healing: RepairBytes %d, ScrubBytes %d: use some MiB per second", h.RepairBytes, h.ScrubBytes)
	}
	return nil
}

// restPart bounds the share of time of rounds, since they read the whole index: the pause after a round is at
// least this many times as long as the round.
const restPart = 3

// limits bound the rates of healing, so that it does not delay clients.
type limits struct{ repair, scrub *rate.Limiter }

func newLimits(h *Healing) limits {
	limiter := func(bytes int) *rate.Limiter { return rate.NewLimiter(rate.Limit(bytes), max(bytes, block.MaxSize)) }
	return limits{repair: limiter(h.RepairBytes), scrub: limiter(h.ScrubBytes)}
}

// Run pings the other servers, repairs the region, hands blocks back and scrubs the disk until ctx ends. It
// returns when all of this has ended.
func (n *Node) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){n.watch, n.repairForEver, n.scrubForEver, n.remedyForEver} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
}

// repairForEver does one round after the other.
func (n *Node) repairForEver(ctx context.Context) {
	rounds := rounds{node: n}
	h := &n.config.Healing
	retry := h.RepairPause
	next := time.NewTimer(retry)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-next.C:
		}
		began := time.Now()
		wait := h.RepairInterval
		if rounds.next(ctx) {
			retry = h.RepairPause
		} else {
			wait, retry = retry, min(2*retry, h.RepairInterval)
		}
		if pause.For(ctx, max(h.RepairPause, restPart*time.Since(began))) != nil {
			return
		}
		next.Reset(wait)
	}
}
