package route

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// durable is the client's knowledge of the state on the disks of one partition's replicas.
type durable struct {
	mu      sync.Mutex
	written ask.Seen // the answers to all updates of this client are at or before it
	onDisk  ask.Seen // a majority of the replicas has the state up to it on disk
	lost    uint64   // number of possible losses of updates of this client
}

// wrote records the answer to an update.
func (d *durable) wrote(seen ask.Seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(seen)
	d.written = d.written.Merge(seen.Claim())
}

// note records the present state of the partition. If it is of a new history, updates of the old one that
// were not on disk may be lost. The caller holds d.mu.
func (d *durable) note(now ask.Seen) {
	if d.written.IsPast(now) {
		if !d.onDisk.Covers(d.written) {
			d.lost++
		}
		d.written = ask.Seen{}
	}
}

// target returns the state that must be on disk: the updates of this client, and seen. ok is false if all of
// it is on disk.
func (d *durable) target(seen ask.Seen) (target ask.Seen, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	target = d.written.Merge(seen.Claim())
	return target, !target.IsZero() && !(d.onDisk.History == target.History && d.onDisk.Count >= target.Count)
}

// confirm records that a majority has target on disk. State on disk of an earlier history does not count any
// more.
func (d *durable) confirm(target ask.Seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onDisk = d.onDisk.Merge(ask.Seen{History: target.History, Count: target.Count, Known: target.Count})
}

// forget records that the partition does not contain target. Updates of a later history remain, and a known
// loss counts once.
func (d *durable) forget(target ask.Seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written.IsZero() || d.written.History > target.History {
		return
	}
	d.lost++
	d.written = ask.Seen{}
}

// losses returns the number of possible losses, given the present state of the partition.
func (d *durable) losses(now ask.Seen) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(now)
	return d.lost
}

// wrote records the answer to an update of p, or of several partitions.
func (r *Router) wrote(p *partition, parties []uint16, vector ask.Vector) {
	p.durable.wrote(vector.Of(p.id))
	for _, id := range parties {
		if party, err := r.partition(id); err == nil && party != p {
			party.durable.wrote(vector.Of(id))
		}
	}
}

// Losses counts the events in which a partition may have lost answered updates of this client before a
// Persist covered them, for example because all its replicas have lost power.
func (r *Router) Losses() (n uint64) {
	for _, p := range r.partitions.All() {
		n += p.durable.losses(p.net.clock.of(p.id))
	}
	return n
}

// OnDisk records that a majority of the replicas of a partition has everything up to a place of a history on
// disk, because the answer to an update confirmed it.
func OnDisk(r *Router, partition uint16, history, place uint64) {
	if p, err := r.partition(partition); err == nil {
		p.durable.confirm(ask.Seen{History: history, Count: place})
	}
}

// Unpersisted returns the partitions in which answered updates of this client, or for the partitions in seen
// these states, are not known to be on disk.
func Unpersisted(r *Router, seen map[uint16]ask.Seen) (all []uint16) {
	for _, p := range r.partitions.All() {
		p.durable.losses(p.net.clock.of(p.id))
		if _, some := p.durable.target(seen[p.id]); some {
			all = append(all, p.id)
		}
	}
	return all
}

// Persist returns once a majority of the replicas of a partition has on disk all answered updates of this
// client, and a state that it has seen. It returns EIO if the partition has lost a part of them. It asks only
// for state that is not known to be on disk.
func (r *Router) Persist(ctx context.Context, partition uint16, seen ask.Seen) error {
	p, err := r.partition(partition)
	if err != nil {
		return err
	}
	return p.persistAll(ctx, seen)
}

// PersistBeside is like Router.Persist, for an operation that does not depend on the partition. If the
// partition does not answer, it returns after some seconds, and at once from then on until the partition
// answers again.
func PersistBeside(ctx context.Context, r *Router, partition uint16) error {
	p, err := r.partition(partition)
	if err != nil {
		return err
	}
	waited, err := p.beside.Do(ctx, r.Go, func(ctx context.Context) error { return p.persistAll(ctx, ask.Seen{}) })
	if !waited {
		p.net.notices.Rarely(fmt.Sprint("persist beside ", p.id), "a partition does not answer: fsync of files in other partitions does not cover the changes that this mount has made there; check that its servers run and can be reached",
			"partition", p.id, "path", p.path)
	}
	return err
}

// persistAll returns once a majority of the replicas of p has on disk all answered updates of this client,
// and seen.
func (p *partition) persistAll(ctx context.Context, seen ask.Seen) error {
	if target, some := p.durable.target(seen); some {
		return p.persist(ctx, target)
	}
	return nil
}

// persist returns once a majority of the replicas of p has target on disk.
func (p *partition) persist(ctx context.Context, target ask.Seen) error {
	onDisk := map[multicast.ProcessID]bool{}
	for wait, patience := firstPause, firstPatience; ; wait, patience = min(2*wait, maxPause), min(2*patience, maxPatience) {
		done, err := p.persistAt(ctx, target, onDisk, patience)
		if err != nil {
			return err
		}
		if done && target.IsPast(p.net.clock.of(p.id)) { // a new history has begun meanwhile
			p.durable.forget(target)
			return posix.EIO
		}
		if done {
			p.durable.confirm(target)
			return nil
		}
		if p.net.suspended.Load() {
			return errSuspended
		}
		p.net.notices.Rarely("persist", "fsync waits: less than a majority of a partition's replicas says that its log is on disk; check that its servers run and can be reached",
			"partition", p.id, "path", p.path)
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return err
		}
	}
}

// persistAt asks each replica of p that is not in onDisk, and adds to onDisk those that have target on disk.
// It returns true as soon as onDisk has a majority of the present replicas.
func (p *partition) persistAt(ctx context.Context, target ask.Seen, onDisk map[multicast.ProcessID]bool, patience time.Duration) (bool, error) {
	all := p.replicas.Load().all
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan persisted, len(all))
	present := 0
	for _, replica := range all {
		if onDisk[replica.Process] {
			present++
			answers <- persisted{}
			continue
		}
		go func() { answers <- p.askPersist(asking, replica, target, patience) }()
	}
	for range all {
		if present > len(all)/2 {
			return true, nil
		}
		switch a := <-answers; {
		case a.lost:
			p.durable.forget(target)
			p.net.notices.Rarely("persist lost", "a partition does not have all that this mount has written: its replicas have lost power; fsync fails with EIO",
				"partition", p.id, "path", p.path)
			return false, posix.EIO
		case a.at != 0:
			onDisk[a.at] = true
			present++
		}
	}
	return present > len(all)/2, ctx.Err()
}

// persisted is the answer of a replica to a request of kind ask.Persist.
type persisted struct {
	at   multicast.ProcessID // the replica that has target on disk; 0: it did not confirm that
	lost bool                // the partition does not contain target
}

func (p *partition) askPersist(ctx context.Context, replica topology.Replica, target ask.Seen, patience time.Duration) persisted {
	q := p.request(ask.Persist)
	q.Claim = q.Claim.Merge(target)
	reply, err := p.net.send(ctx, replica.Process, &q, patience)
	switch {
	case err != nil:
	case reply.Status == ask.Answered:
		return persisted{at: replica.Process}
	case reply.Status == ask.Unseen:
		return persisted{lost: true}
	case reply.Status == ask.Unproven:
		p.unproven(replica.Server, q.Proofs)
	case reply.Status == ask.Refused:
		_ = p.refused(&reply) // logged; the other replicas are asked
	}
	return persisted{}
}
