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

// vectorClock has the entries of partitions that the client has seen, with the proofs by which replicas have
// confirmed them.
//
// A claim is an entry without a proof that replicas accept: the keys of the servers have changed, or another
// client has forged the entry. Only the partition of a claim can verify it. So the client sends the claim to
// that partition only, whose answer has a proof. Other partitions get the proof, and never the claim.
type vectorClock struct {
	mu     sync.Mutex
	seen   ask.Vector          // GUARDED_BY mu; the merged entries of proofs and claims
	proofs ask.Proofs          // GUARDED_BY mu; not changed in place
	claims map[uint16]ask.Seen // GUARDED_BY mu; by partition
}

// add adds a proof. It removes the claims that the proof covers.
func (v *vectorClock) add(p ask.Proof) {
	if len(p.Vector) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.proofs = v.proofs.Add(p)
	v.seen = v.seen.Merge(p.Vector)
	for i, claim := range v.claims {
		if p.Vector.Of(i).Covers(claim) {
			delete(v.claims, i)
		}
	}
	if len(v.proofs) >= ask.MaxProofs {
		v.disown(v.proofs)
	}
}

// doubt turns the proofs that a replica has not accepted into claims.
func (v *vectorClock) doubt(shown ask.Proofs) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disown(shown)
}

// disown turns entries that only the given proofs cover into claims. The caller holds v.mu.
func (v *vectorClock) disown(proofs ask.Proofs) {
	v.proofs = slices.DeleteFunc(slices.Clone(v.proofs), func(p ask.Proof) bool {
		return slices.ContainsFunc(proofs, func(x ask.Proof) bool { return &x.Vector[0] == &p.Vector[0] })
	})
	proven := v.proofs.Merged()
	v.claims = map[uint16]ask.Seen{}
	for i, seen := range v.seen {
		if p := uint16(i); !seen.IsZero() && !proven.Of(p).Covers(seen) {
			v.claims[p] = seen.Claim()
		}
	}
}

// claim adds the entries that another client claims to have seen.
func (v *vectorClock) claim(seen ask.Vector) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range seen {
		if p := uint16(i); !v.seen.Of(p).Covers(seen[i]) {
			if v.claims == nil {
				v.claims = map[uint16]ask.Seen{}
			}
			v.claims[p] = v.claims[p].Merge(seen[i].Claim())
		}
	}
	v.merge()
}

// merge sets seen to the merged proofs and claims. The caller holds v.mu.
func (v *vectorClock) merge() {
	v.seen = v.proofs.Merged()
	for i, claim := range v.claims {
		one := make(ask.Vector, i+1)
		one[i] = claim
		v.seen = v.seen.Merge(one)
	}
}

// deny removes the claim about a partition, which the partition has denied.
func (v *vectorClock) deny(partition uint16) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.claims, partition)
	v.merge()
}

// show returns the proofs and the claim for a request to a partition.
func (v *vectorClock) show(partition uint16) (ask.Proofs, ask.Seen) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.proofs, v.claims[partition]
}

// of returns the entry for one partition.
func (v *vectorClock) of(partition uint16) ask.Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.Of(partition)
}

// all returns all entries as proofs. The claims are a proof without a tag.
func (v *vectorClock) all() ask.Proofs {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.claims) == 0 {
		return v.proofs
	}
	return append(slices.Clone(v.proofs), ask.Proof{Vector: v.seen.Clone()})
}

// Proofs returns proofs of all entries that the client has seen. A client that adopts them with Observe reads
// no older state.
func (r *Router) Proofs() ask.Proofs { return r.net.clock.all() }

// Seen returns the entry of one partition.
func (r *Router) Seen(partition uint16) ask.Seen { return r.net.clock.of(partition) }

// Observe adopts the proofs of another client: every call that begins after Observe sees all updates that the
// other client has seen. It drops proofs about partitions that the cluster does not have.
func (r *Router) Observe(all ask.Proofs) {
	for _, p := range all {
		if len(p.Vector) <= len(r.partitions.All()) {
			r.net.clock.add(p)
		}
	}
}

// Wait adopts the entries of another client once each partition has confirmed its entry. It returns EINVAL if
// there are more partitions than the cluster has, or if a partition does not have the entries: the proofs are
// of another cluster or forged, or the partition has lost entries.
func (r *Router) Wait(ctx context.Context, all ask.Proofs) error {
	v := all.Merged()
	ctx, cancel := r.Operation(ctx)
	defer cancel()
	if len(v) > len(r.partitions.All()) && (len(v) > ask.MaxPartitions || !r.learn(ctx, uint16(len(v)-1))) {
		return posix.EINVAL
	}
	r.net.clock.claim(v)
	g, waiting := errgroup.WithContext(ctx)
	for i, seen := range v {
		if !seen.IsZero() {
			g.Go(func() error { return r.partitions.All()[i].await(waiting, seen) })
		}
	}
	return r.Outcome(g.Wait())
}

// await returns once a replica of p has executed all commands of a claim.
func (p *partition) await(ctx context.Context, claim ask.Seen) error {
	statFS := meta.Command{Op: meta.OpStatFS, Ino: posix.MakeIno(p.id, posix.Root.Counter())}
	command := statFS.Append(nil)
	reply, _, err := p.exchange(ctx, reading, func() ask.Request {
		q := p.request(ask.Query)
		q.Command = command
		return q
	})
	switch own := reply.Vector.Of(p.id); {
	case err != nil:
		return err
	case reply.Status != ask.Answered:
		return p.refused(&reply)
	case claim.IsAhead(own) || claim.IsPast(own):
		return posix.EINVAL
	}
	return nil
}

// request returns a request to p with the proofs and the claim of the client.
func (p *partition) request(kind ask.Kind) ask.Request {
	q := ask.Request{Kind: kind}
	q.Proofs, q.Claim = p.net.clock.show(p.id)
	return q
}
