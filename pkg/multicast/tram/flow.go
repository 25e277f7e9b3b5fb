package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// flow carries messages of this process, or of its group, into the inputs of all replicas of another group,
// each message into the same slot everywhere (Algorithm 1; Algorithm 2, forwarding). Entries are kept until
// the group has ordered them.
type flow struct {
	to      *group
	taken   uint64   // the group has ordered the first so many entries
	entries [][]byte // those behind
	copies  []*copyOf
	sealed  bool          // the group orders nothing more
	since   time.Duration // when the group last took something, or had nothing to take
}

// copyOf is the ring at one replica.
type copyOf struct {
	lane         *lane.Lane
	posted, done uint64 // the first so many entries
}

func (c *site) newFlow(to *group, kind fabric.RegionID) *flow {
	f := &flow{to: to}
	if kind == clientRegion {
		f.taken = firstOf(c.cfg.Life) - 1
	}
	for _, p := range to.Members {
		r := &copyOf{}
		r.lane = c.lanes.New(c.peers[p].node, regionOf(kind, c.cfg.Self), r)
		f.copies = append(f.copies, r)
	}
	return f
}

func (r *copyOf) Landed(f lane.Flight, _ *fabric.Completion) { r.done = max(r.done, f.Mark) }

func (r *copyOf) Failed(lane.Flight) { r.posted = r.done }

// forget notes that the replica has lost its memory.
func (r *copyOf) forget() { r.posted, r.done = 0, 0 }

// A process that restarts numbers the messages of its new life in each input anew: its earlier messages that
// no group has ordered may still lie in the inputs of some replicas. The index of an entry names the life.
const (
	lifeShift = 40
	maxLife   = 1<<22 - 1
)

// firstOf is the index of the first message of a life.
func firstOf(life uint32) uint64 { return uint64(life)<<lifeShift + 1 }

func lifeOf(index uint64) uint32 { return uint32(min(index>>lifeShift, maxLife)) }

// last is the index of the last entry.
func (f *flow) last() uint64 { return f.taken + uint64(len(f.entries)) }

// add puts an entry behind the others. Entries that the group has taken already are not needed.
func (f *flow) add(index uint64, m *multicast.Message, now time.Duration) {
	if index <= f.taken {
		return
	}
	if len(f.entries) == 0 {
		f.since = now
	}
	f.entries = append(f.entries, seal(index, appendMessage(nil, m)))
}

// maxTaken is above every credit that a member can give.
const maxTaken = 1 << 62

// credit notes how many entries the group has ordered. A group cannot have ordered entries that do not exist;
// but a member that lags behind its own group may hear of it before it has the entries.
func (f *flow) credit(taken uint64, now time.Duration) {
	if taken <= f.taken || taken > maxTaken {
		return
	}
	f.entries = f.entries[min(uint64(len(f.entries)), taken-f.taken):]
	f.taken, f.since = taken, now
}

// pump writes the entries for which there is room. A slot may be used again when the group has ordered its
// entry.
func (c *site) pump(f *flow) {
	if len(f.entries) == 0 {
		return
	}
	for _, r := range f.copies {
		r.done = max(r.done, f.taken)
		r.posted = max(r.posted, r.done)
		end := min(f.last(), f.taken+uint64(c.cfg.Slots))
		if r.posted >= end || !r.lane.Ready() {
			continue
		}
		for r.posted < end {
			slot := f.entries[r.posted-f.taken]
			r.posted++
			r.lane.Post(fabric.Op{At: c.cfg.place(r.posted), Data: slot, Notify: true}, r.posted, 0)
		}
	}
}
