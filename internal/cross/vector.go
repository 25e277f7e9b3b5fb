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

// StoredVector returns the vector that keys hold; nil for a new store.
func StoredVector(keys meta.Keys) (ask.Vector, error) {
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

func (c *Commands) loadVector() error {
	stored, err := StoredVector(c.keys)
	if err != nil {
		return err
	}
	c.vector = make(ask.Vector, max(int(c.cfg.Partition)+1, len(stored), c.cfg.Partitions))
	copy(c.vector, stored)
	return nil
}

// Save stores the vector, and the positions of the classes. It belongs into the batch of the entries that it
// covers.
func (c *Commands) Save() {
	c.keys.Set(vectorKey, c.vector.Append(nil))
	if c.moved {
		c.moved = false
		c.saveState()
	}
}

// Vector returns the vector of the replica. The caller must not change it.
func (c *Commands) Vector() ask.Vector { return c.vector }

// Count returns the number of entries of the partition's own order that the state holds.
func (c *Commands) Count() uint64 { return c.Own().Count }

// Own returns the replica's entry for its own partition.
func (c *Commands) Own() ask.Seen { return c.vector[c.cfg.Partition] }

// Advance counts one entry of the partition's own order, which is executed next, with its time.
func (c *Commands) Advance(t posix.Time) {
	c.vector[c.cfg.Partition].Count++
	c.time = t
}

// Observe notes that what follows here comes after everything that a vector says. Commands that are undecided
// here and open in the vector become marked: the state of this partition follows from their commits.
func (c *Commands) Observe(seen ask.Vector) {
	self := c.cfg.Partition
	if own := seen.Of(self); own.LastOpen() > 0 && own.History == c.Own().History {
		for _, x := range c.list {
			if x.phase == voted && !x.marked && own.IsOpen(x.place) {
				x.marked = true
				c.save(x)
				c.touch()
			}
		}
	}
	own := c.vector[self]
	c.vector = c.vector.Merge(seen)
	c.vector[self] = own
}

// IsFalse reports whether the client of an ordered request shows entries of this partition that did not exist
// before the entry with this id, or entries of an old history. Proven entries that did not exist begin a new
// history.
func (c *Commands) IsFalse(q *ask.Request, entry multicast.MessageID) bool {
	c.Doubt(q.Vector.Of(c.cfg.Partition), entry)
	reader, own := q.Reader(c.cfg.Partition), c.Own()
	return reader.IsPast(own) || reader.IsAhead(own) || reader.Count == own.Count
}

// open notes the commit of a command for which another party has given a ballot.
func (c *Commands) open(partition uint16, b *ballot) {
	v := make(ask.Vector, partition+1)
	v[partition] = ask.Seen{History: b.vector.Of(partition).History}.Observe(b.place)
	c.vector = c.vector.Merge(v)
}

// Doubt compares what a client was proven to have seen of this partition with the state, in an entry of the
// order: a true count was ordered before the entry. If the client has seen more, then the partition has lost
// entries, and begins a new history. The counts of the old one are void everywhere, as soon as they meet the
// new one.
func (c *Commands) Doubt(seen ask.Seen, entry multicast.MessageID) {
	own := &c.vector[c.cfg.Partition]
	if seen.History < own.History || seen.History == own.History && seen.Count < own.Count {
		return
	}
	h := fnv.New32a()
	_, _ = h.Write(appendID(varint.AppendInt(nil, int64(c.time)), entry))
	own.History = seen.NextHistory(h.Sum32())
	c.touch()
}

// Settle brings the replica's entry for itself up to date, after an entry of the order was executed. Before
// that the entry says nothing of the commands that are undecided at its place. If the entry was durable, the
// state is sealed.
func (c *Commands) Settle() {
	c.settle()
	if c.sealed.now {
		c.seal()
	}
}

// settle brings the replica's entry for itself up to date.
func (c *Commands) settle() {
	own := &c.vector[c.cfg.Partition]
	if !c.unsettled {
		own.Known = own.Count
		return
	}
	c.unsettled = false
	var undecided, open []uint64
	for _, x := range c.list {
		if x.phase != voted {
			continue
		}
		undecided = insert(undecided, x.place)
		if x.marked {
			open = insert(open, x.place)
		}
	}
	history := own.History
	*own = ask.State(own.Count, undecided, open)
	own.History = history
}

// touch notes that a command has entered another phase, or was marked.
func (c *Commands) touch() {
	c.changed, c.unsettled = true, true
	c.hurry()
}

// insert puts a place into an ascending list, once.
func insert(places []uint64, place uint64) []uint64 {
	i := len(places)
	for i > 0 && places[i-1] > place {
		i--
	}
	if i > 0 && places[i-1] == place {
		return places
	}
	places = append(places, 0)
	copy(places[i+1:], places[i:])
	places[i] = place
	return places
}
