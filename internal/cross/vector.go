package cross

import (
	"fmt"
	"hash/fnv"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var vectorKey = []byte{0x47}

// vector counts, for each partition, the entries in the past of this partition's state. It is replicated.
type vector struct {
	partition uint16
	keys      meta.Keys
	table     *table

	entries   ask.Vector // entry partition: this partition's own state
	entryTime posix.Time // of the entry that is being executed
}

// StoredVector returns the vector that keys hold; nil for a new store.
func StoredVector(keys meta.Reader) (ask.Vector, error) {
	b := keys.Get(vectorKey)
	if b == nil {
		return nil, nil
	}
	r := varint.NewReader(b)
	v := ask.ReadVector(r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("stored vector: %w", err)
	}
	return v, nil
}

// load reads the vector that the keys hold, and makes room for a number of partitions, which must be the same
// at all replicas: the stored vector is replicated state. Entries of further partitions come with what is
// observed of them.
func (v *vector) load(partitions int) error {
	stored, err := StoredVector(v.keys)
	if err != nil {
		return err
	}
	v.entries = make(ask.Vector, max(int(v.partition)+1, len(stored), partitions))
	copy(v.entries, stored)
	return nil
}

// save stores the vector.
func (v *vector) save() { v.keys.Set(vectorKey, v.entries.Append(nil)) }

// Vector returns the vector of the replica. The caller must not change it.
func (v *vector) Vector() ask.Vector { return v.entries }

// Count returns the number of entries of the partition's own order that the state holds.
func (v *vector) Count() uint64 { return v.Own().Count }

// Own returns the replica's entry for its own partition.
func (v *vector) Own() ask.Seen { return v.entries[v.partition] }

// Advance counts one entry of the partition's own order, which is executed next, with its time.
func (v *vector) Advance(t posix.Time) {
	v.entries[v.partition].Count++
	v.entryTime = t
}

// time returns the time of the entry that is being executed.
func (v *vector) time() posix.Time { return v.entryTime }

// Observe records that later entries here follow from everything in a vector. Commands that are undecided
// here and open in the vector become marked: the state of this partition follows from their commits.
func (v *vector) Observe(seen ask.Vector) {
	own := v.Own()
	if here := seen.Of(v.partition); here.LastOpen() > 0 && here.History == own.History {
		v.table.mark(here)
	}
	v.entries = v.entries.Merge(seen)
	v.entries[v.partition] = own
}

// IsFalse reports whether the vector of an ordered request is false: it counts entries of this partition that
// did not exist before the entry with this id, or entries of an old history. If the client proves that it has
// seen such entries, the partition has lost them and begins a new history (Doubt).
func (v *vector) IsFalse(q *ask.Request, entry multicast.MessageID) bool {
	v.Doubt(q.Vector.Of(v.partition), entry)
	reader, own := q.Reader(v.partition), v.Own()
	return reader.IsPast(own) || reader.IsAhead(own) || reader.Count == own.Count
}

// open records the commit of a command for which another party has given a ballot.
func (v *vector) open(partition uint16, b *ballot) {
	place := make(ask.Vector, partition+1)
	place[partition] = ask.Seen{History: b.vector.Of(partition).History}.Observe(b.place)
	v.entries = v.entries.Merge(place)
}

// Doubt compares the entries of this partition that a client has provably seen with the state, in an entry of
// the order: a true count was ordered before the entry. If the client has seen more, then the partition has
// lost entries, and begins a new history. The counts of the old one are void everywhere, as soon as they meet
// the new one.
func (v *vector) Doubt(seen ask.Seen, entry multicast.MessageID) {
	own := &v.entries[v.partition]
	if seen.History < own.History || seen.History == own.History && seen.Count < own.Count {
		return
	}
	h := fnv.New32a()
	_, _ = h.Write(appendID(varint.AppendInt(nil, int64(v.entryTime)), entry))
	own.History = seen.NextHistory(h.Sum32())
	v.table.touch()
}

// endEntry updates the vector's entry for this partition after the execution of an entry of the own order.
func (v *vector) endEntry() {
	own := &v.entries[v.partition]
	if !v.table.takeVotesChanged() {
		own.Known = own.Count
		return
	}
	undecided, open := v.table.votePlaces()
	history := own.History
	*own = ask.State(own.Count, undecided, open)
	own.History = history
}
