package region

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Status is the state of one server and of its part of the region. The counts begin at the start of the
// server.
type Status struct {
	Members Members               `json:"members"`
	Down    []multicast.ProcessID `json:"down"` // the servers that have been silent for DownAfter
	// Drained is set if the server owns no block and stores none any more. So it may be removed.
	Drained bool         `json:"drained"`
	Repair  RepairStatus `json:"repair"`
	Scrub   ScrubStatus  `json:"scrub"`
}

// RepairStatus counts the copies that were made and dropped, and their bytes.
type RepairStatus struct {
	Rounds          uint64      `json:"rounds"` // complete rounds
	Last            RoundStatus `json:"last"`
	Fetched         uint64      `json:"fetched"`
	FetchedBytes    uint64      `json:"fetched_bytes"`
	HandedBack      uint64      `json:"handed_back"` // copies sent to the keepers that lacked them
	HandedBackBytes uint64      `json:"handed_back_bytes"`
	Dropped         uint64      `json:"dropped"`  // dropped copies of blocks that other servers own
	Cured           uint64      `json:"cured"`    // copies that were missing at an owner during a get
	Replaced        uint64      `json:"replaced"` // bad copies that a get or a scrub found
}

// RoundStatus is the outcome of one repair round.
type RoundStatus struct {
	Version    uint64    `json:"version"` // of the members
	FinishedAt time.Time `json:"finished_at"`
	Complete   bool      `json:"complete"` // there was no error, and the members stayed the same
	Missing    uint64    `json:"missing"`  // missing copies, on this server or on those to which it handed back
	Failed     uint64    `json:"failed"`   // of the missing copies, those that could not be made
	Lost       uint64    `json:"lost"`     // blocks with only bad copies, counted once for each find
	Strays     uint64    `json:"strays"`   // blocks that others own and that are still on this server
	Error      string    `json:"error,omitempty"`

	// FormerFinishedAt is FinishedAt with the name of earlier versions, for their 'globalfs status'. Only
	// servers send it: see Adopt.
	FormerFinishedAt time.Time `json:"finishedAt,omitzero"`
}

// Adopt takes the values from a server of an earlier version over, and drops their former names.
func (s *Status) Adopt() {
	last := &s.Repair.Last
	if last.FinishedAt.IsZero() {
		last.FinishedAt = last.FormerFinishedAt
	}
	last.FormerFinishedAt = time.Time{}
}

// ScrubStatus counts the blocks that the scrub has read, and its findings.
type ScrubStatus struct {
	Rounds  uint64 `json:"rounds"`
	Blocks  uint64 `json:"blocks"`
	Bytes   uint64 `json:"bytes"`
	Found   uint64 `json:"found"` // corrupt copies: fixed and unfixed ones; one that stays counts in each round
	Fixed   uint64 `json:"fixed"`
	Unfixed uint64 `json:"unfixed"`
}

// counts are the counts of a Status.
type counts struct {
	fetched, fetchedBytes, handedBack, handedBackBytes, dropped, cured, replaced atomic.Uint64
	scrubs, scrubbed, scrubbedBytes, found, fixed, unfixed                       atomic.Uint64

	mu     sync.Mutex
	rounds uint64      // GUARDED_BY mu
	last   RoundStatus // GUARDED_BY mu
}

// finish records the outcome of a round.
func (c *counts) finish(r *RoundStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = *r
	if r.Complete {
		c.rounds++
	}
}

// Status returns the state of this server's part of the region.
func (n *Node) Status() Status {
	v, c := n.view.Load(), &n.counts
	s := Status{
		Members: n.Members(), Down: slices.Clone(n.down()),
		Repair: RepairStatus{
			Fetched: c.fetched.Load(), FetchedBytes: c.fetchedBytes.Load(),
			HandedBack: c.handedBack.Load(), HandedBackBytes: c.handedBackBytes.Load(),
			Dropped: c.dropped.Load(), Cured: c.cured.Load(), Replaced: c.replaced.Load(),
		},
		Scrub: ScrubStatus{
			Rounds: c.scrubs.Load(), Blocks: c.scrubbed.Load(), Bytes: c.scrubbedBytes.Load(),
			Found: c.found.Load(), Fixed: c.fixed.Load(), Unfixed: c.unfixed.Load(),
		},
	}
	c.mu.Lock()
	s.Repair.Rounds, s.Repair.Last = c.rounds, c.last
	c.mu.Unlock()
	last := &s.Repair.Last
	s.Drained = !v.ring.Has(n.config.Self) && last.Complete && last.Version == v.members.Version && last.Strays == 0
	return s
}
