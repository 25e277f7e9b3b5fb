package client

import (
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/replica"
)

// vectorClock is what the client has seen: it only grows.
type vectorClock struct {
	max int // partitions in the cluster

	mu   sync.Mutex
	seen replica.Vector // GUARDED_BY mu
}

// merge takes in the vector of an answer. Entries of partitions that the cluster does not have are
// dropped.
func (v *vectorClock) merge(other replica.Vector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = v.seen.Merge(other[:min(len(other), v.max)])
}

// snapshot gives a copy.
func (v *vectorClock) snapshot() replica.Vector {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen)
}

// of gives one counter.
func (v *vectorClock) of(partition uint16) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.Of(partition)
}

// Vector gives what the client has seen: who adopts it with Observe reads nothing older.
func (c *Client) Vector() replica.Vector { return c.vector.snapshot() }

// Observe adopts the vector of another client ("message, then look"): what that one has seen
// is visible to every operation that begins after Observe.
func (c *Client) Observe(v replica.Vector) { c.vector.merge(v) }

// Seen gives the client's counter of one partition: as long as it does not change, what
// was read from there before is what would be read again, as far as this client can know.
func (c *Client) Seen(partition uint16) uint64 { return c.vector.of(partition) }
