package region

import (
	"context"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Lengths returns the length of each block in bytes: from this server, or from the first owner that answers
// and has the block. It returns 0 for a block that no owner has; another server may still have it. If this
// server has the blocks, Lengths sends no request.
func (n *Node) Lengths(ctx context.Context, ids []block.ID) ([]uint32, error) {
	lengths := make([]uint32, len(ids))
	err := n.peers.try(ctx, n.config.Self, func(ctx context.Context) error {
		own, err := n.config.Disk.Sizes(ctx, ids)
		copy(lengths, own)
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	v := n.view.Load()
	for copies := range v.copies {
		missing := map[multicast.ProcessID][]int{} // by owner: places in ids
		for i, length := range lengths {
			if owners := v.owners(ids[i]); length == 0 && copies < len(owners) && owners[copies] != n.config.Self {
				missing[owners[copies]] = append(missing[owners[copies]], i)
			}
		}
		for owner, places := range missing {
			n.askLengths(ctx, owner, ids, places, lengths)
		}
	}
	return lengths, err
}

// askLengths puts the lengths from another server into their places. If the server does not answer, these
// stay unchanged.
func (n *Node) askLengths(ctx context.Context, server multicast.ProcessID, ids []block.ID, places []int, lengths []uint32) {
	wanted := make([]block.ID, len(places))
	for i, at := range places {
		wanted[i] = ids[at]
	}
	reply, err := n.peers.call(ctx, server, encodeSizes(wanted))
	if err != nil {
		return
	}
	theirs, err := decodeSizes(len(wanted), reply)
	if err != nil {
		return
	}
	for i, at := range places {
		lengths[at] = theirs[i]
	}
}
