package primcast

import (
	"iter"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// sequence is the T of the own group: entries 1 to length. It holds only the entries that are not forgotten.
// A message that waits for long thus keeps no memory for the forgotten entries after it.
type sequence struct {
	length    uint64
	slots     []slot // ascending
	forgotten int    // number of forgotten entries in slots
	lastTS    multicast.Timestamp
	count     int // number of entries that are not forgotten
	bytes     int // approximate size of these entries in bytes
}

// slot is the place of an entry. The message is nil if it was forgotten since the slots were last compacted.
type slot struct {
	index   uint64
	message *message
}

func (t *sequence) last() uint64 { return t.length }

// lastTimestamp returns the timestamp of the last entry that was appended and not cut.
func (t *sequence) lastTimestamp() multicast.Timestamp { return t.lastTS }

// entries returns the number of entries that are not forgotten; size returns their approximate size in a
// checkpoint, in bytes.
func (t *sequence) entries() int { return t.count }

func (t *sequence) size() int { return t.bytes }

// enters and leaves update count and bytes.
func (t *sequence) enters(m *message) {
	m.logged = true
	t.count, t.bytes = t.count+1, t.bytes+packetSize(&m.Message)
}

func (t *sequence) leaves(m *message) {
	m.logged = false
	t.count, t.bytes = t.count-1, t.bytes-packetSize(&m.Message)
}

// find returns the position in slots of the first entry at or after an index.
func (t *sequence) find(index uint64) int {
	at, _ := slices.BinarySearchFunc(t.slots, index, func(s slot, index uint64) int {
		if s.index < index {
			return -1
		}
		return 1
	})
	return at
}

// at returns the entry with an index; nil if it is forgotten.
func (t *sequence) at(index uint64) *message {
	if i := t.find(index); i < len(t.slots) && t.slots[i].index == index {
		return t.slots[i].message
	}
	return nil
}

// all yields the entries that are not forgotten, in order. The loop body may forget entries.
func (t *sequence) all() iter.Seq[*message] { return t.after(0) }

// slotsAfter returns the slots after an index.
func (t *sequence) slotsAfter(index uint64) []slot { return t.slots[t.find(index+1):] }

// after yields the entries after an index that are not forgotten.
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

// lastGone returns the index of the last forgotten entry; 0: there is none.
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

// append appends m at its index, which is above the length. The entries in between count as forgotten.
func (t *sequence) append(m *message) {
	if m.index <= t.length || m.ts <= t.lastTS {
		invariant.Broken("entry %d at %d follows entry %d at %d in T (I2)", m.index, m.ts, t.length, t.lastTS)
	}
	t.slots = append(t.slots, slot{m.index, m})
	t.enters(m)
	t.length, t.lastTS = m.index, m.ts
}

// pad extends T up to an index by forgotten entries.
func (t *sequence) pad(index uint64) { t.length = max(t.length, index) }

// forget drops the entry with an index.
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

// compact drops forgotten entries. It makes a new slice, because an iteration may use the old one.
func (t *sequence) compact() {
	slots := make([]slot, 0, len(t.slots))
	for _, s := range t.slots {
		if s.message != nil {
			slots = append(slots, s)
		}
	}
	t.slots, t.forgotten = slots, 0
}

// cut removes all entries after an index, and returns them.
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
