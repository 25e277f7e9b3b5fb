package client

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
	max int // partitions in the cluster

	mu   sync.Mutex
	seen ask.Vector // GUARDED_BY mu
}

// merge takes in the vector of an answer. Entries of partitions that the cluster does not have are
// dropped.
func (v *vectorClock) merge(other ask.Vector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = v.seen.Merge(other[:min(len(other), v.max)])
}

// snapshot gives a copy.
func (v *vectorClock) snapshot() ask.Vector {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen)
}

// of gives what was seen of one partition.
func (v *vectorClock) of(partition uint16) ask.Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.Of(partition)
}

// Vector gives what the client has seen: who adopts it with Observe reads nothing older.
func (c *Client) Vector() ask.Vector { return c.vector.snapshot() }

// Observe adopts the vector of another client ("message, then look"): what that one has seen
// is visible to every operation that begins after Observe.
func (c *Client) Observe(v ask.Vector) { c.vector.merge(v) }

// Version tells contents of a directory apart: as long as it is the one that ReadDir gave, this client knows of no later
// update of the partition where the directory is. It means nothing else.
func (c *Client) Version(dir posix.Ino) uint64 {
	p, err := c.at(dir)
	if err != nil {
		return 0
	}
	return version(p, c.vector.of(p.id))
}

// version makes one number of what was seen of a partition. Numbers of different partitions differ: a
// directory may move.
func version(p *partition, seen ask.Seen) uint64 {
	const spread = 0x9e3779b97f4a7c15 // so that the one does not undo the other
	return (seen.Count<<16 | uint64(p.id)) ^ uint64(seen.Cross.Final)*spread
}

// Token gives what the client has seen as text: who waits for it anywhere reads nothing older.
func (c *Client) Token() string { return c.Vector().Token() }

// Wait returns once all that is read through this client is at least as new as the token. EINVAL if
// it is none of this cluster's.
func (c *Client) Wait(ctx context.Context, token string) error {
	v, err := ask.ParseToken(token)
	if err != nil || len(v) > len(c.partitions) {
		return posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	for i, seen := range v {
		if seen == (ask.Seen{}) {
			continue
		}
		g.Go(func() error { return c.await(waiting, c.partitions[i], v) })
	}
	if err := g.Wait(); err != nil {
		return c.outcome(err)
	}
	c.Observe(v) // only now: a token that nobody ever reaches must not hold up all that is read later
	return nil
}

// await returns once a replica of p has seen v.
func (c *Client) await(ctx context.Context, p *partition, v ask.Vector) error {
	statFS := meta.Command{Op: meta.OpStatFS, Ino: posix.MakeIno(p.id, posix.Root.Counter())}
	command := statFS.Append(nil)
	reply, _, err := c.exchange(ctx, p, reading, func() ask.Request {
		return ask.Request{Kind: ask.Query, Vector: c.vector.snapshot().Merge(v), Command: command}
	})
	if err == nil && reply.Status != ask.Answered {
		err = c.refused(p, &reply)
	}
	return err
}
