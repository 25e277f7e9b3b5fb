package region

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// fetchers is the number of blocks that a round fetches at a time.
const fetchers = 4

// rounds has the state of the repair of one server. After an error, the next round continues the comparison
// with each peer at its place in at, unless members or the servers that are down have changed. Handing back
// always begins at the first block, so that Strays counts all strays.
type rounds struct {
	node *Node
	view *view
	down []multicast.ProcessID
	at   map[multicast.ProcessID]block.ID // place to continue with each server

	mu     sync.Mutex
	report RoundStatus // GUARDED_BY mu; of this round
}

// next does one round, and reports whether it was complete.
func (r *rounds) next(ctx context.Context) bool {
	n := r.node
	r.begin()
	errs := []error{}
	for _, peer := range n.others(r.view) {
		if slices.Contains(r.down, peer) {
			continue
		}
		if err := r.pull(ctx, peer); err != nil {
			errs = append(errs, err)
		}
	}
	if n.incoming.Load() > 0 && r.view.isLeaving(n.config.Self) {
		errs = append(errs, errors.New("blocks that were sent here before this server left are still on their way to its disk"))
	}
	if err := r.handBack(ctx); err != nil {
		errs = append(errs, err)
	}
	return r.end(ctx, errors.Join(errs...))
}

func (r *rounds) begin() {
	v, down := r.node.view.Load(), r.node.down()
	if r.view != v || !slices.Equal(r.down, down) {
		r.view, r.down, r.at = v, down, make(map[multicast.ProcessID]block.ID)
	}
	r.report = RoundStatus{Version: v.members.Version}
}

// end records the outcome of the round.
func (r *rounds) end(ctx context.Context, err error) bool {
	n := r.node
	now := time.Now()
	r.report.FinishedAt, r.report.FormerFinishedAt = now, now
	r.report.Complete = err == nil && n.view.Load() == r.view
	if err != nil && ctx.Err() == nil {
		r.report.Error = err.Error()
		level := slog.LevelWarn
		if errors.Is(err, errStale) {
			level = slog.LevelDebug // servers have joined or left: the next round begins anew with the present ones
		}
		n.config.Log.Log(ctx, level, "repair of blocks is not done yet: it goes on in the next round", "error", err)
	}
	n.counts.finish(&r.report)
	return r.report.Complete
}

// count changes the report of the round.
func (r *rounds) count(change func(*RoundStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.report)
}

// pull fetches all blocks that a peer has and both should have. It compares digests, and requests ids only
// where they differ.
func (r *rounds) pull(ctx context.Context, peer multicast.ProcessID) error {
	n := r.node
	s := scope{stamp: r.view.stamp, asker: n.config.Self, down: r.down}
	for {
		at := r.at[peer]
		reply, err := n.peers.call(ctx, peer, encodeDigest(&s, at))
		if err != nil {
			return r.exchangeIfStale(ctx, peer, err)
		}
		theirs, err := decodeDigest(at, reply)
		if err != nil {
			return err
		}
		if theirs.count > 0 {
			ours, err := n.ownDigest(ctx, r.view, &s, peer, at, theirs.to)
			if err == nil && ours != theirs {
				err = r.pullRange(ctx, peer, &s, at, theirs.to)
			}
			if err != nil {
				return err
			}
		}
		if theirs.to == block.LastID {
			delete(r.at, peer)
			return nil
		}
		r.at[peer] = block.Next(theirs.to)
	}
}

// exchangeIfStale exchanges members with a peer if err means that it knows other ones. It returns err.
func (r *rounds) exchangeIfStale(ctx context.Context, peer multicast.ProcessID, err error) error {
	if errors.Is(err, errStale) {
		_ = r.node.exchange(ctx, peer) // the round fails in any case
	}
	return err
}

// pullRange fetches the blocks between two ids that a peer has and this server lacks.
func (r *rounds) pullRange(ctx context.Context, peer multicast.ProcessID, s *scope, from, to block.ID) error {
	for ids, err := range block.Pages(from, to, func(from block.ID) ([]block.ID, bool, error) {
		reply, err := r.node.peers.call(ctx, peer, encodeScope(s, from, to))
		if err != nil {
			return nil, false, r.exchangeIfStale(ctx, peer, err)
		}
		return decodeIDs(reply)
	}) {
		if err == nil {
			err = r.pullPage(ctx, peer, ids)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pullPage fetches those of ids that this server lacks.
func (r *rounds) pullPage(ctx context.Context, peer multicast.ProcessID, ids []block.ID) error {
	sizes, err := r.node.config.Disk.Sizes(ctx, ids)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	for i, id := range ids {
		if sizes[i] > 0 {
			continue
		}
		g.Go(func() error { return r.pullBlock(ctx, peer, id) })
	}
	return g.Wait()
}

// pullBlock fetches one block from a peer, or from any server if the peer's copy is bad.
func (r *rounds) pullBlock(ctx context.Context, peer multicast.ProcessID, id block.ID) error {
	n := r.node
	reply, err := n.copyOf(ctx, id, peer)
	if err != nil && ctx.Err() == nil {
		reply, err = n.find(ctx, id)
	}
	switch {
	case errors.Is(err, block.ErrNotFound):
		return nil // deleted meanwhile
	case errors.Is(err, block.ErrCorrupt):
		r.lost(id, err)
		return nil
	case err != nil:
		r.count(func(s *RoundStatus) { s.Missing++; s.Failed++ })
		return err
	}
	b, err := decodeBlock(id, reply)
	if err != nil {
		return err
	}
	if err := n.limits.repair.WaitN(ctx, len(b.Data)); err != nil {
		return err
	}
	if err := n.config.Disk.Put(ctx, b); err != nil {
		r.count(func(s *RoundStatus) { s.Missing++; s.Failed++ })
		return err
	}
	r.count(func(s *RoundStatus) { s.Missing++ })
	n.counts.fetched.Add(1)
	n.counts.fetchedBytes.Add(uint64(len(b.Data)))
	return nil
}

// lost records a block without any good copy.
func (r *rounds) lost(id block.ID, err error) {
	r.count(func(s *RoundStatus) { s.Lost++ })
	r.node.config.Log.Error("a block has no good copy left in this region: restore it from another region or a backup, or delete the file",
		"block", id, "error", err)
}

// drop removes this server's copies of blocks of which all owners by v have good copies. It fails if v is not
// the newest view any more (M2).
func (n *Node) drop(ctx context.Context, v *view, ids []block.ID) error {
	if err := n.hold(ctx); err != nil {
		return err
	}
	defer n.release()
	if n.view.Load() != v {
		return errStale
	}
	for _, id := range ids {
		invariant.Check(!slices.Contains(v.owners(id), n.config.Self), "server %d drops block %v that it owns", n.config.Self, id)
	}
	err := n.peers.try(ctx, n.config.Self, func(ctx context.Context) error { return n.config.Disk.Delete(ctx, ids) })
	if err != nil {
		return err
	}
	n.counts.dropped.Add(uint64(len(ids)))
	return nil
}
