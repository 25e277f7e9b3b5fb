package region

import (
	"context"
	"errors"
	"slices"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// scrubForEver repeatedly reads all blocks of the own disk.
func (n *Node) scrubForEver(ctx context.Context) {
	for {
		if err := n.scrub(ctx); err == nil {
			n.counts.scrubs.Add(1)
		} else if ctx.Err() == nil {
			n.config.Log.Error("scrub of blocks stopped: check the disk of this server", "error", err)
		}
		if pause.For(ctx, n.config.Healing.ScrubPause) != nil {
			return
		}
	}
}

// scrub reads all blocks once, in pages, so that concurrent puts and deletes do not matter.
func (n *Node) scrub(ctx context.Context) error {
	for ids, err := range block.Pages(block.ID{}, block.LastID, func(from block.ID) ([]block.ID, bool, error) { return n.page(ctx, from, block.LastID) }) {
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := n.scrubBlock(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// scrubBlock reads the own copy of a block, and replaces it if it is bad.
func (n *Node) scrubBlock(ctx context.Context, id block.ID) error {
	sizes, err := n.config.Disk.Sizes(ctx, []block.ID{id})
	if err != nil || sizes[0] == 0 {
		return err
	}
	if err := n.limits.scrub.WaitN(ctx, min(int(sizes[0]), block.MaxSize)); err != nil {
		return err
	}
	err = n.check(ctx, id)
	if err != nil && !errors.Is(err, block.ErrCorrupt) {
		if errors.Is(err, block.ErrNotFound) {
			return nil
		}
		return err
	}
	n.counts.scrubbed.Add(1)
	n.counts.scrubbedBytes.Add(uint64(sizes[0]))
	if err == nil {
		return nil
	}
	n.counts.found.Add(1)
	reply, err := n.find(ctx, id) // replaces the bad copies that it finds
	good := false
	if err == nil {
		good, err = n.isGood(ctx, id)
	}
	if err == nil && !good { // find does not read the copy of this server if it is no keeper
		n.replace(ctx, id, reply, []multicast.ProcessID{n.config.Self})
		good, err = n.isGood(ctx, id)
	}
	if good {
		n.counts.fixed.Add(1)
		return nil
	}
	n.counts.unfixed.Add(1)
	n.config.Log.Error("a corrupt block could not be replaced: it is tried again by the next scrub; if no server has a good copy, "+
		"restore it from another region or a backup, or delete the file", "block", id, "error", err)
	return ctx.Err()
}

// remedies is the maximum number of queued remedies. Repair makes the copies of further blocks.
const remedies = 256

// remedy is a block with owners that had no copy of it during a get.
type remedy struct {
	id     block.ID
	owners []multicast.ProcessID
}

// noteMissing queues a block for owners that a get has found without it.
func (n *Node) noteMissing(id block.ID, missing []multicast.ProcessID) {
	if len(missing) == 0 {
		return
	}
	keepers := n.view.Load().keepers(id, n.down())
	owners := slices.DeleteFunc(slices.Clone(missing), func(p multicast.ProcessID) bool { return !slices.Contains(keepers, p) })
	if len(owners) == 0 {
		return
	}
	select {
	case n.remedy <- remedy{id, owners}:
	default:
	}
}

// remedyForEver puts the queued blocks on their owners.
func (n *Node) remedyForEver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-n.remedy:
			if err := n.putMissing(ctx, &m); err != nil && ctx.Err() == nil {
				n.config.Log.Warn("cannot put a missing copy of a block on its owner: the next repair round will", "block", m.id, "error", err)
			}
		}
	}
}

// putMissing puts a queued block on its owners.
func (n *Node) putMissing(ctx context.Context, m *remedy) error {
	s := search{node: n, id: m.id}
	reply, err := s.find(ctx)
	if err != nil {
		if errors.Is(err, block.ErrNotFound) {
			return nil // deleted meanwhile
		}
		return err
	}
	b, err := decodeBlock(m.id, reply)
	if err != nil {
		return err
	}
	if err := n.limits.repair.WaitN(ctx, len(b.Data)); err != nil {
		return err
	}
	frame := encodeStore(&b)
	var errs []error
	for _, owner := range m.owners {
		if _, err := n.storeAt(ctx, owner, frame); err != nil {
			errs = append(errs, err)
			continue
		}
		n.counts.cured.Add(1)
	}
	return errors.Join(errs...)
}
