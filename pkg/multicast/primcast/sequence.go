package primcast

import (
	"iter"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// sequence is T of the own group, durably: entries 1 to length. It holds the entries that are not forgotten,
// however far apart they are: an entry that waits for long does not keep the places of later entries.
type sequence struct {
	length    uint64
	slots     []slot // ascending
	forgotten int    // of slots: forgotten
	lastTS    multicast.Timestamp
	count     int // of entries that are not forgotten
	bytes     int // of them, about
}

// slot is an entry that existed when the sequence was last compacted; the message is nil if it is forgotten.
type slot struct {
	index   uint64
	message *message
}

func (t *sequence) last() uint64 { return t.length }

// lastTimestamp is the timestamp of the last entry that was appended and not cut.
func (t *sequence) lastTimestamp() multicast.Timestamp { return t.lastTS }

// entries is the number of entries that are not forgotten, size their approximate size in bytes in a
// checkpoint.
func (t *sequence) entries() int { return t.count }

func (t *sequence) size() int { return t.bytes }

// enters and leaves keep account of the entries.
func (t *sequence) enters(m *message) {
	m.logged = true
	t.count, t.bytes = t.count+1, t.bytes+packetSize(&m.Message)
}

func (t *sequence) leaves(m *message) {
	m.logged = false
	t.count, t.bytes = t.count-1, t.bytes-packetSize(&m.Message)
}

// find returns the first slot that is not before an index.
func (t *sequence) find(index uint64) int {
	at, _ := slices.BinarySearchFunc(t.slots, index, func(s slot, index uint64) int {
		if s.index < index {
			return -1
		}
		return 1
	})
	return at
}

// at returns an entry, nil if it is forgotten.
func (t *sequence) at(index uint64) *message {
	if i := t.find(index); i < len(t.slots) && t.slots[i].index == index {
		return t.slots[i].message
	}
	return nil
}

// all returns the entries that are not forgotten. They may be forgotten during the iteration.
func (t *sequence) all() iter.Seq[*message] { return t.after(0) }

// slotsAfter returns the slots after an index.
func (t *sequence) slotsAfter(index uint64) []slot { return t.slots[t.find(index+1):] }

// after returns the entries after an index that are not forgotten.
func (t *sequence) after(index uint64) iter.Seq[*message] {
	slots := t.slotsAfter(index)
	return func(yield func(*message) bool) {
		for i := range slots {
			if m := slots[i].message; m != nil && !yield(m) {
				return
			}
		}
	}
}

// lastGone is the index of the last entry that is forgotten; 0: none is.
func (t *sequence) lastGone() uint64 {
	next := t.length
	for _, s := range slices.Backward(t.slots) {
		if s.message == nil || s.index < next {
			break
		}
		next--
	}
	return next
}

// append puts m at its index, which is above last; the entries in between are forgotten.
func (t *sequence) append(m *message) {
	if m.index <= t.length || m.ts <= t.lastTS {
		invariant.Broken("entry %d at %d follows entry %d at %d in T (I2)", m.index, m.ts, t.length, t.lastTS)
	}
	t.slots = append(t.slots, slot{m.index, m})
	t.enters(m)
	t.length, t.lastTS = m.index, m.ts
}

// pad makes all missing entries up to an index forgotten.
func (t *sequence) pad(index uint64) { t.length = max(t.length, index) }

// forget drops an entry.
func (t *sequence) forget(index uint64) {
	s := &t.slots[t.find(index)]
	t.leaves(s.message)
	s.message = nil
	t.forgotten++
	for len(t.slots) > 0 && t.slots[0].message == nil {
		t.slots = t.slots[1:]
		t.forgotten--
	}
	if t.forgotten > len(t.slots)/2 {
		t.compact()
	}
}

// compact makes new slots, because an iteration may use the old ones.
func (t *sequence) compact() {
	slots := make([]slot, 0, len(t.slots))
	for _, s := range t.slots {
		if s.message != nil {
			slots = append(slots, s)
		}
	}
	t.slots, t.forgotten = slots, 0
}

// cut drops all entries after an index, and returns them.
func (t *sequence) cut(index uint64) []*message {
	if len(t.slots) == 0 {
		return nil
	}
	index = max(index, t.slots[0].index-1) // earlier entries are forgotten
	if index >= t.length {
		return nil
	}
	tail := slices.Collect(t.after(index))
	for _, m := range tail {
		t.leaves(m)
	}
	t.slots = t.slots[:t.find(index+1)]
	t.compact()
	t.length, t.lastTS = index, 0
	if n := len(t.slots); n > 0 {
		t.lastTS = t.slots[n-1].message.ts
	}
	return tail
}
