package region

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// handBack returns blocks to their keepers: it sends each block to the keepers that lack it, and drops the
// copy of this server when all owners have good copies on disk.
func (r *rounds) handBack(ctx context.Context) error {
	var failed error
	for at := (block.ID{}); ; {
		strays, last, err := r.strays(ctx, at)
		if err != nil {
			return err
		}
		if len(strays) > 0 {
			if err := r.handBackPage(ctx, strays); errors.Is(err, errStale) || ctx.Err() != nil {
				return err
			} else if err != nil {
				failed = err // the next blocks may have other owners
			}
		}
		if last == block.LastID {
			return failed
		}
		at = block.Next(last)
	}
}

// strays returns the next blocks on this disk, from an id on, of which this server is not a keeper. last is
// the id up to which strays has searched. Blocks of which this server is a stand-in stay here: strays only
// counts them.
func (r *rounds) strays(ctx context.Context, from block.ID) (strays []block.ID, last block.ID, err error) {
	self := r.node.config.Self
	for id, err := range r.node.config.Disk.Range(ctx, from, block.LastID) {
		switch {
		case err != nil:
			return nil, id, err
		case slices.Contains(r.view.owners(id), self):
			continue
		case slices.Contains(r.view.keepers(id, r.down), self):
			r.report.Strays++
			continue
		}
		if strays = append(strays, id); len(strays) == maxHave {
			return strays, id, nil
		}
	}
	return strays, block.LastID, nil
}

// handBackPage hands back at most maxHave blocks.
func (r *rounds) handBackPage(ctx context.Context, ids []block.ID) error {
	if err := r.throttle(ctx, ids); err != nil {
		return err
	}
	of := make(map[multicast.ProcessID][]block.ID)
	for _, id := range ids {
		for _, p := range r.view.keepers(id, r.down) {
			of[p] = append(of[p], id)
		}
	}
	good := make(map[block.ID][]multicast.ProcessID) // GUARDED_BY r.mu; the servers with a good copy
	var g errgroup.Group
	for server, some := range of {
		g.Go(func() error {
			have, err := r.sendMissing(ctx, server, some)
			r.count(func(*RoundStatus) {
				for i, has := range have {
					if has {
						good[some[i]] = append(good[some[i]], server)
					}
				}
			})
			return err
		})
	}
	err := g.Wait()
	complete := slices.DeleteFunc(slices.Clone(ids), func(id block.ID) bool {
		return slices.ContainsFunc(r.view.owners(id), func(p multicast.ProcessID) bool { return !slices.Contains(good[id], p) })
	})
	complete, unsynced := r.onDisk(ctx, complete)
	err = errors.Join(err, unsynced)
	r.report.Strays += uint64(len(ids) - len(complete))
	if len(complete) == 0 {
		return err
	}
	return errors.Join(r.node.drop(ctx, r.view, complete), err)
}

// onDisk returns those of ids whose owners have all been flushed. A client may rely on the copy of this
// server because it is on disk: so the copies that replace it must be on disk, too.
func (r *rounds) onDisk(ctx context.Context, ids []block.ID) (synced []block.ID, err error) {
	results := make(map[multicast.ProcessID]error)
	for _, id := range ids {
		whole := true
		for _, p := range r.view.owners(id) {
			failed, asked := results[p]
			if !asked {
				failed = r.node.flushAt(ctx, p)
				results[p] = failed
				err = errors.Join(err, failed)
			}
			whole = whole && failed == nil
		}
		if whole {
			synced = append(synced, id)
		}
	}
	return synced, err
}

// throttle waits until the rate limit permits the move of these blocks.
func (r *rounds) throttle(ctx context.Context, ids []block.ID) error {
	sizes, err := r.node.config.Disk.Sizes(ctx, ids)
	if err != nil {
		return err
	}
	for _, size := range sizes {
		if err := r.node.limits.repair.WaitN(ctx, int(size)); err != nil {
			return err
		}
	}
	return nil
}

// sendMissing sends a server the blocks of ids that it lacks, and reports for each of ids whether the server
// has a good copy. After an error, the blocks that were not examined count as missing.
func (r *rounds) sendMissing(ctx context.Context, server multicast.ProcessID, ids []block.ID) ([]bool, error) {
	have, err := r.haves(ctx, server, ids)
	if err != nil {
		return have, err
	}
	var sent []block.ID
	var failed error
	for i, id := range ids {
		if have[i] {
			continue
		}
		switch err := r.send(ctx, server, id); {
		case err == nil:
			sent = append(sent, id)
		case errors.Is(err, block.ErrNotFound): // deleted meanwhile
		case errors.Is(err, block.ErrCorrupt): // send has counted it; it stays on this server
		case errors.Is(err, block.ErrUnavailable) || errors.Is(err, block.ErrNoSpace) || ctx.Err() != nil:
			return have, err // the next ones would fail, too
		default:
			failed = err
		}
	}
	if sent == nil {
		return have, failed
	}
	has, err := r.haves(ctx, server, sent) // refused if the server knows other members now (M4)
	for i, good := range has {
		have[slices.Index(ids, sent[i])] = good
	}
	return have, errors.Join(failed, err)
}

// haves queries a server for good copies of ids. After an error, the blocks that were not examined count as
// missing.
func (r *rounds) haves(ctx context.Context, server multicast.ProcessID, ids []block.ID) (have []bool, err error) {
	have = make([]bool, len(ids))
	for at := 0; at < len(ids); {
		reply, err := r.node.peers.call(ctx, server, encodeHave(r.view.stamp, true, ids[at:]))
		if err != nil {
			return have, r.exchangeIfStale(ctx, server, err)
		}
		some, err := decodeHave(len(ids)-at, reply)
		if err != nil {
			return have, err
		}
		at += copy(have[at:], some)
	}
	return have, nil
}

// send puts a block on a server.
func (r *rounds) send(ctx context.Context, server multicast.ProcessID, id block.ID) error {
	n := r.node
	reply, err := n.fetch(ctx, id)
	if errors.Is(err, block.ErrCorrupt) {
		reply, err = n.find(ctx, id)
	}
	if errors.Is(err, block.ErrCorrupt) {
		r.lost(id, err)
	}
	if err != nil {
		return err
	}
	b, err := decodeBlock(id, reply)
	if err != nil {
		return err
	}
	r.count(func(s *RoundStatus) { s.Missing++ })
	if _, err := n.storeAt(ctx, server, encodeStore(&b)); err != nil {
		r.count(func(s *RoundStatus) { s.Failed++ })
		return err
	}
	n.counts.handedBack.Add(1)
	n.counts.handedBackBytes.Add(uint64(len(b.Data)))
	return nil
}
