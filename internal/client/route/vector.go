package route

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// vectorClock is what the client has seen: it only grows.
type vectorClock struct {
	partitions int // of the cluster

	mu        sync.Mutex
	seen      ask.Vector        // GUARDED_BY mu
	falseFrom map[uint16]uint64 // GUARDED_BY mu; of partitions: counts from there on are false
}

// merge takes in the vector of an answer. Entries of partitions that the cluster does not have are dropped.
func (v *vectorClock) merge(other ask.Vector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	other = slices.Clone(other[:min(len(other), v.partitions)])
	for p, from := range v.falseFrom {
		if int(p) < len(other) && other[p].Count >= from {
			other[p] = ask.Seen{}
		}
	}
	v.seen = v.seen.Merge(other)
}

// deny drops what was seen of a partition, because the partition has not got that far: it has count entries only. What
// other partitions say of it is not believed from there on, until the partition itself has got there.
func (v *vectorClock) deny(partition uint16, count uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if seen := v.seen.Of(partition); seen.Count > count {
		if v.falseFrom == nil {
			v.falseFrom = map[uint16]uint64{}
		}
		v.falseFrom[partition], v.seen[partition] = seen.Count, ask.Seen{Count: count}
	}
}

// confirm notes what a partition says of itself.
func (v *vectorClock) confirm(partition uint16, own ask.Seen) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if from, denied := v.falseFrom[partition]; denied && own.Count >= from {
		delete(v.falseFrom, partition)
	}
}

// snapshot returns a copy.
func (v *vectorClock) snapshot() ask.Vector {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen)
}

// of returns what was seen of one partition.
func (v *vectorClock) of(partition uint16) ask.Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.Of(partition)
}

// Vector returns what the client has seen: a client that adopts it with Observe reads nothing older.
func (r *Router) Vector() ask.Vector { return r.net.clock.snapshot() }

// Seen returns what the client has seen of one partition.
func (r *Router) Seen(partition uint16) ask.Seen { return r.net.clock.of(partition) }

// Observe adopts the vector of another client: what that client has seen is visible to every call that begins
// after Observe.
func (r *Router) Observe(v ask.Vector) { r.net.clock.merge(v) }

// Wait adopts the vector of another client once replicas have seen it: a vector that no replica ever reaches
// must not delay all later queries. EINVAL if it has more partitions than the cluster.
func (r *Router) Wait(ctx context.Context, v ask.Vector) error {
	if len(v) > len(r.partitions) {
		return posix.EINVAL
	}
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	for i, seen := range v {
		if seen.IsZero() {
			continue
		}
		g.Go(func() error { return r.partitions[i].await(waiting, v) })
	}
	if err := g.Wait(); err != nil {
		return r.Outcome(err)
	}
	r.Observe(v)
	return nil
}

// await returns once a replica of p has seen v.
func (p *partition) await(ctx context.Context, v ask.Vector) error {
	statFS := meta.Command{Op: meta.OpStatFS, Ino: posix.MakeIno(p.id, posix.Root.Counter())}
	command := statFS.Append(nil)
	reply, _, err := p.exchange(ctx, reading, func() ask.Request {
		return ask.Request{Kind: ask.Query, Vector: p.net.clock.snapshot().Merge(v), Command: command}
	})
	if err == nil && reply.Status != ask.Answered {
		err = p.refused(&reply)
	}
	return err
}
