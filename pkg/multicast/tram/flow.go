package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// flow carries messages of this process, or of its group, into the inputs of all members of another group
// (Algorithm 1; Algorithm 2, forwarding). A message has the same slot in all inputs. Its entry is kept until
// the other group has ordered it.
type flow struct {
	to      *group
	taken   uint64   // the group has ordered entries up to this index
	entries [][]byte // the entries after taken
	copies  []*copyOf
	sealed  bool          // the group has ordered a barrier, and orders nothing more
	since   time.Duration // time of the last progress of the group, or when there was nothing to order
}

// copyOf is the state of the input at one member of the group.
type copyOf struct {
	lane         *lane.Lane
	posted, done uint64 // the entries up to these indexes were posted, were written
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

// forget resets the copy, because the member has lost its memory.
func (r *copyOf) forget() { r.posted, r.done = 0, 0 }

// Each start of a process is a new life (Config.Life). The index of a message in an input contains the life
// of its sender in the upper bits. So a message of an earlier life, which may still be in the inputs of some
// members, never has the index of a new message.
const (
	lifeShift = 40
	maxLife   = 1<<22 - 1
)

// firstOf returns the index of the first message that a process sends in a life.
func firstOf(life uint32) uint64 { return uint64(life)<<lifeShift + 1 }

func lifeOf(index uint64) uint32 { return uint32(min(index>>lifeShift, maxLife)) }

// last returns the index of the last entry.
func (f *flow) last() uint64 { return f.taken + uint64(len(f.entries)) }

// add appends an entry, unless the group has ordered it already.
func (f *flow) add(index uint64, m *multicast.Message, now time.Duration) {
	if index <= f.taken {
		return
	}
	if len(f.entries) == 0 {
		f.since = now
	}
	f.entries = append(f.entries, seal(index, appendMessage(nil, m)))
}

// maxTaken bounds the credits of a member.
const maxTaken = 1 << 62

// credit records how many entries the group has ordered. The number may exceed the known entries: a member
// that lags behind its own group may get a credit before it has the entries.
func (f *flow) credit(taken uint64, now time.Duration) {
	if taken <= f.taken || taken > maxTaken {
		return
	}
	f.entries = f.entries[min(uint64(len(f.entries)), taken-f.taken):]
	f.taken, f.since = taken, now
}

// pump writes the entries for which the inputs have room. A slot is free again when the group has ordered its
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
